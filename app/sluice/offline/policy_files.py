"""A policy out of files: a signed one judged as a worker judges it, an unsigned one taken as it is.

Signed files hold DSSE envelopes, one a line, as `sluice bundle sign` and `sluice registry sign` write them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.core.cases.cases import load_any_bundle, run_cases
from sluice.core.foundation.canonical import canonical, digest
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.strict import json_object
from sluice.core.policy.bundles import Bundle
from sluice.core.policy.policy import DEFAULT_QUALITY, Policy
from sluice.core.quality_bundle.quality_bundle import QualityBundle
from sluice.core.registry.loading import build_registry, load_registry
from sluice.core.registry.registry_entries import RegistryFile
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.dsse import read_envelope
from sluice.core.trust.in_force import make_input_records
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.signed_entries import Statement
from sluice.offline.bundle_source import read_whole_bundle
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.json_text import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.registry.keys import Roots
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import EntryFile
    from sluice.core.trust.refused import Refused


class PolicyFileError(Exception):
    """A file cannot be read or does not count; a line for each reason."""


@dataclass(frozen=True, slots=True)
class FileEnvelope:
    """One line of a file; `section` says where it is from."""

    section: str
    value: bytes


def read_envelopes(path: Path) -> list[FileEnvelope]:
    """The envelopes in a file, signed or not. Raises PolicyFileError at the first line that is not an
    envelope."""
    return [_read_envelope(f"{path}: line {number}", line) for number, line in _read_lines(path)]


def read_control_records(
    topic: str, files: Sequence[Path], at_ms: int
) -> tuple[list[InputRecord], dict[str, str]]:
    """The files' envelopes as they would lie in a control topic, and each one's place in the files by its id.

    Raises PolicyFileError.
    """
    read = [envelope for path in files for envelope in read_envelopes(path)]
    if not read:
        raise PolicyFileError(f"{', '.join(map(str, files))}: no envelope in it")
    records = make_input_records(topic, [envelope.value for envelope in read], [], at_ms)
    places = zip(records, read, strict=True)
    return records, {record.decision_id: envelope.section for record, envelope in places}


def describe_refused(refused: Sequence[Refused], places: dict[str, str]) -> str:
    """A line for each refusal, with its place in the files."""
    return "\n".join(
        f"{places[refusal.input_record.decision_id]}: {refusal.code} at {refusal.path}: {refusal.message}"
        for refusal in refused
    )


def read_file(path: Path) -> bytes:
    """A file's bytes. Raises PolicyFileError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"cannot read {path}: {error.strerror}") from error


def _read_lines(path: Path) -> list[tuple[int, bytes]]:
    numbered = enumerate(read_file(path).split(b"\n"), start=1)
    return [(number, line) for number, line in numbered if line.strip()]


def _read_envelope(location: str, line: bytes) -> FileEnvelope:
    envelope = read_envelope(line)
    if isinstance(envelope, Unreadable):
        raise PolicyFileError(f"{location}: not a DSSE envelope: {envelope.message}")
    return FileEnvelope(location, line)


_REVISION_MARK = "@"


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """Policy and quality bundles in any order. The first policy bundle is the default one, for agents that
    name none and are registered with none; the first quality bundle is the default one for tenants that name
    none."""

    bundles: Sequence[Path]
    registry: Sequence[Path]


def read_signed_policy(files: PolicyFiles, roots: Roots, at_ms: int, audience: Audience = UNNAMED) -> Policy:
    """The policy in files of DSSE envelopes, as if published in an installation at `at_ms`. Raises
    PolicyFileError.

    What a worker would refuse is refused here, with the same reason.
    """
    registry, entry_places = read_control_records(REGISTRY, files.registry, at_ms)
    bundles, bundle_places = read_control_records(BUNDLES, files.bundles, at_ms)
    reduced = reduce_policy([*registry, *bundles], roots, CompileCache(run_cases, audience))
    if reduced.refused:
        raise PolicyFileError(describe_refused(reduced.refused, entry_places | bundle_places))
    order = [(bundle.key or b"").decode().rpartition(_REVISION_MARK)[0] for bundle in bundles]
    return _build_policy(reduced.bundles, reduced.registry, reduced.quality, order)


def read_unsigned_policy(files: PolicyFiles, audience: Audience = UNNAMED) -> Policy:
    """The policy in registry files and in bundle sources, for inputs that were signed for an installation.
    Raises PolicyFileError."""
    entries = [entry for path in files.registry for entry in _read_entries(path)]
    try:
        registry = build_registry(entries, audience)
    except CoreError as error:
        raise PolicyFileError(f"{', '.join(map(str, files.registry))}: {error}") from error
    loaded = [read_any_unsigned_bundle(path) for path in files.bundles]
    bundles = {bundle.id: bundle for bundle in loaded if isinstance(bundle, Bundle)}
    quality = {bundle.id: bundle for bundle in loaded if isinstance(bundle, QualityBundle)}
    return _build_policy(bundles, registry, quality, [bundle.id for bundle in loaded])


def _build_policy(
    bundles: Mapping[str, Bundle],
    registry: Registry,
    quality: Mapping[str, QualityBundle],
    order: Sequence[str],
) -> Policy:
    default = next((name for name in order if name in bundles), None)
    if default is None:
        raise PolicyFileError("no policy bundle among the bundles")
    default_quality = next((name for name in order if name in quality), DEFAULT_QUALITY)
    return Policy(bundles, registry, default, quality, default_quality)


def _read_entries(path: Path) -> list[EntryFile]:
    raw = read_file(path)
    try:
        load_registry(raw)
    except CoreError as error:
        raise PolicyFileError(f"{path}: {error}") from error
    return RegistryFile.model_validate(json_object(raw)).entries


def read_candidate_entries(path: Path) -> list[Statement]:
    """The entries of an unsigned registry file as they would be published. Raises PolicyFileError."""
    return [
        Statement(entry.kind, entry.id, entry.revision, digest(entry.model_dump()), entry.model_dump())
        for entry in _read_entries(path)
    ]


def read_unsigned_bundle(path: Path) -> Bundle:
    """The policy bundle in a source file, with what it includes. Raises PolicyFileError."""
    bundle = read_any_unsigned_bundle(path)
    if isinstance(bundle, QualityBundle):
        raise PolicyFileError(f"{path}: a quality bundle, not a policy bundle")
    return bundle


def read_any_unsigned_bundle(path: Path) -> Bundle | QualityBundle:
    """The bundle of either kind in a source file, with what it includes, read in the form in which it would
    be published: so that what is compiled of it is what was compiled of it there. Raises PolicyFileError."""
    try:
        return load_any_bundle(canonical(json_object(read_whole_bundle(path))))
    except CoreError as error:
        raise PolicyFileError(f"{path}: {error}") from error
    except OSError as error:
        raise PolicyFileError(f"cannot read {error.filename or path}: {error.strerror}") from error
