"""Where a command finds the archive or the audit package that it reads: a place that is named, or the
settings'. `open_evidence` gives whatever lies there, or the broker, to reruns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from sluice.adapters.archive.archive_evidence import ArchiveEvidence
from sluice.adapters.archive.archive_store import BUCKET_SCHEME, StoreError, open_store
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.audit_package import AuditPackage
from sluice.adapters.archive.manifest import ArchiveRefused, ArchiveTrust
from sluice.adapters.archive.segment import ArchiveDamaged
from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.cli.output import errors, require_broker, stop
from sluice.core.registry.keys import PublicKey, SigningKey, UnusableKeyError
from sluice.secrets.secret_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.adapters.archive.manifest import Manifest
    from sluice.core.rerun.walk import LedgerSource
    from sluice.settings.reader import Settings

T = TypeVar("T")
Noted = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER:SHA256", help="An entry of the archive's manifest as you noted it elsewhere."
    ),
]
ArchiveKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--archive-key",
        metavar="KEY",
        help="Public key, base64, that may have signed the archive; beside the settings'.",
    ),
]
EvidenceSource = Annotated[
    str | None,
    typer.Option("--from", metavar="PLACE", help="An archive or a package in place of the broker."),
]
"""What `open_evidence` opens."""
_NOTED_MODE = 0o644
_OF_DECISIONS: dict[str, tuple[str, ...]] = {
    "session": (),
    "memory": (),
    "approvals": (),
    "policy": ("default_bundle", "default_quality_bundle", "environment", "max_lag_s"),
    "kafka": ("partitions",),
}
"""Settings on which decisions depend, by their table; of a table without names all."""


def open_evidence(
    settings: Settings, location: str | None, noted: str | None, keys: Sequence[str] | None
) -> tuple[Settings, LedgerSource]:
    """What reruns read: the broker (`location` None), an archive, or an audit package's file; with the
    settings to read it by, which of a package are those that it was made under. What is damaged, or of
    another installation, ends the command."""
    if location is None:
        return settings, KafkaEvidence(settings.kafka.connection, settings.kafka.topic_prefix)
    archive = require_archive(settings, location, noted, keys)
    if isinstance(archive, AuditPackage):
        settings = adopt_package(settings, archive)
    else:
        errors.print(describe_signatures(archive.manifest), soft_wrap=True, highlight=False)
    try:
        archive.require_whole_manifest(get_installation_of(settings))
    except (ArchiveDamaged, ArchiveRefused) as error:
        stop(str(error))
    return settings, ArchiveEvidence(archive, settings.kafka.topic_prefix)


def require_source(reading: Coroutine[Any, Any, T], message: str = "{}") -> T:
    """Return what was read; a broker or an archive that cannot be read ends the command. `message`: how that
    is said of a broker, with {} for why."""
    try:
        return require_broker(reading, message)
    except (ArchiveDamaged, StoreError) as error:
        stop(f"the archive cannot be read: {error}")


def describe_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings on which decisions depend, for a package."""
    tables = {table: getattr(settings, table).model_dump(mode="json") for table in _OF_DECISIONS}
    return {
        table: {name: fields[name] for name in _OF_DECISIONS[table] or fields}
        for table, fields in tables.items()
    }


def adopt_package(settings: Settings, package: AuditPackage) -> Settings:
    """The settings with those that a package was made under; whose signatures count stays as it is. A package
    of another installation than the settings name ends the command."""
    installation, prefix, app_id = package.manifest.installation_of or ("", "", "")
    own = settings.policy.installation
    if own and own != installation:
        stop(f"{package.store.url} is of installation {installation!r}, the settings are of {own!r}")
    named = {table: _read_table(package.settings, table, names) for table, names in _OF_DECISIONS.items()}
    named["policy"]["installation"], named["kafka"]["topic_prefix"] = installation, prefix
    named["worker"] = {"app_id": app_id}
    try:
        tables = {
            table: type(getattr(settings, table)).model_validate(
                getattr(settings, table).model_dump() | fields
            )
            for table, fields in named.items()
        }
    except ValidationError as error:
        stop(f"{package.store.url}: its settings: {' '.join(str(error).split())}")
    return settings.model_copy(update=tables)


def _read_table(settings: Mapping[str, Any], table: str, names: tuple[str, ...]) -> dict[str, Any]:
    """What a package names of a table, of these settings alone; without names of all."""
    fields = settings.get(table)
    return {
        name: value
        for name, value in (fields.items() if isinstance(fields, dict) else ())
        if not names or name in names
    }


def require_store(settings: Settings, location: str | None) -> ArchiveStore:
    """The store at a place, or at the settings'; without one the command ends."""
    where = location or settings.archive.location
    if not where:
        stop("where is the archive? Name a folder or s3://BUCKET/PATH, or set archive.location")
    try:
        return open_store(where, settings.archive.endpoint_url)
    except StoreError as error:
        stop(str(error))


def require_archive(
    settings: Settings, location: str | None, noted: str | None, keys: Sequence[str] | None
) -> Archive:
    """The archive at a place, or at the settings', or an AuditPackage where the place is its file; what is
    none, or cannot be read, ends the command. `keys`: public ones, base64, which count beside the
    settings'."""
    trust = require_trust(settings, noted, keys or ())
    try:
        if location and not location.startswith(BUCKET_SCHEME) and Path(location).expanduser().is_file():
            return AuditPackage(Path(location).expanduser())
        return Archive(require_store(settings, location), trust)
    except (StoreError, ArchiveRefused) as error:
        stop(str(error))


def require_trust(settings: Settings, noted: str | None, keys: Sequence[str] = ()) -> ArchiveTrust:
    """Which keys may have signed the archive, and which entry was noted elsewhere: as an option says, or else
    as the archiver's own note does. What is no key and no note ends the command."""
    archive_settings = settings.archive
    if noted is None and archive_settings.noted_file is not None:
        noted = _read_note(archive_settings.noted_file.expanduser())
    number, _, digest = (noted or "").strip().partition(":")
    if noted and not (number.isdigit() and digest):
        stop(
            "--noted takes NUMBER:SHA256, as `sluice archive check` prints it, and so does archive.noted_file"
        )
    try:
        trusted = tuple(PublicKey.from_text(text) for text in (*archive_settings.public_keys, *keys))
    except UnusableKeyError as error:
        stop(f"--archive-key: {error}")
    return ArchiveTrust(trusted, (int(number), digest) if noted else None)


def require_signing_key(settings: Settings) -> SigningKey | None:
    """The key that signs entries; None: the settings have none. One that cannot be used ends the command."""
    try:
        pem = settings.archive.read_pem()
        return None if pem is None else SigningKey.from_pem(pem)
    except (OSError, UnusableKeyError) as error:
        stop(f"archive.signing_key: {error}")


def build_note(settings: Settings) -> Callable[[int, str], None] | None:
    """What keeps the manifest's end in the settings' file; it raises StoreError. None: no file is named."""
    file = settings.archive.noted_file
    return None if file is None else partial(_write_note, file.expanduser())


def _write_note(file: Path, number: int, digest: str) -> None:
    try:
        replace_file(file, f"{number}:{digest}\n".encode(), _NOTED_MODE)
    except OSError as error:
        raise StoreError(f"archive.noted_file: {file}: {error.strerror}") from None


def _read_note(file: Path) -> str | None:
    """What the archiver noted; None: nothing yet."""
    try:
        return file.read_text("ascii")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        stop(f"archive.noted_file: {error}")


def describe_signatures(manifest: Manifest) -> str:
    """Who vouches for the manifest, in a sentence."""
    if not manifest.signed:
        return "It is unsigned: whoever can write to the store can have written it."
    if not manifest.keys:
        return "It is signed; no --archive-key was given, so signatures were not checked."
    before = f", the first of which names the {manifest.unsigned} before it" if manifest.unsigned else ""
    return f"{manifest.signed} entries are signed by a key that counts{before}."


def get_installation_of(settings: Settings) -> tuple[str, str, str]:
    """What the entries of this installation's archive say that they are of."""
    return settings.policy.installation, settings.kafka.topic_prefix, settings.worker.app_id
