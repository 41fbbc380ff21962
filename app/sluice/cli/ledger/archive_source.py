"""Where a command finds the archive that it writes or reads: a place that is named, or the settings'."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.adapters.archive.archive_store import StoreError, open_store
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.manifest import ArchiveRefused, ArchiveTrust
from sluice.cli.output import stop
from sluice.core.registry.keys import PublicKey, SigningKey, UnusableKeyError
from sluice.secrets.secret_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.adapters.archive.manifest import Manifest
    from sluice.settings.reader import Settings


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
_NOTED_MODE = 0o644


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
    """The archive at a place, or at the settings'; what is none, or cannot be read, ends the command.
    `keys`: public ones, base64, which count beside the settings'."""
    trust = require_trust(settings, noted, keys or ())
    try:
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
