"""A policy out of files: a signed one judged as a worker judges it, an unsigned one taken as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.core.bundles import load_bundle
from app.core.cases import run_cases
from app.core.errors import CoreError
from app.core.policy import Policy
from app.core.registry import build_registry, load_registry
from app.core.registry_entries import RegistryFile
from app.core.strict import json_object
from app.core.trust.compiled import Compiled
from app.core.trust.fold import fold
from app.offline.bundle_source import whole_bundle
from app.offline.envelope_files import PolicyFileError, control_records, read_file, told
from topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from app.core.bundles import Bundle
    from app.core.registry_entries import EntryFile
    from app.core.trust.keys import Roots

_REVISION_MARK = "@"


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The first bundle is the default one, for agents that name none and are registered with none."""

    bundles: Sequence[Path]
    registry: Sequence[Path]


def signed_policy(files: PolicyFiles, roots: Roots, at_ms: int) -> Policy:
    """The policy in files of DSSE envelopes, as if published at `at_ms`. Raises PolicyFileError.

    What a worker would refuse is refused here, with the same reason.
    """
    registry, entry_places = control_records(REGISTRY, files.registry, at_ms)
    bundles, bundle_places = control_records(BUNDLES, files.bundles, at_ms)
    folded = fold([*registry, *bundles], roots, Compiled(run_cases))
    if folded.refused:
        raise PolicyFileError(told(folded.refused, entry_places | bundle_places))
    default, _, _ = (bundles[0].key or b"").decode().rpartition(_REVISION_MARK)
    return Policy(folded.bundles, folded.registry, default)


def unsigned_policy(files: PolicyFiles) -> Policy:
    """The policy in registry files and in bundle sources. Raises PolicyFileError."""
    entries = [entry for path in files.registry for entry in _entries(path)]
    try:
        registry = build_registry(entries)
    except CoreError as error:
        raise PolicyFileError(f"{', '.join(map(str, files.registry))}: {error}") from error
    bundles = [unsigned_bundle(path) for path in files.bundles]
    return Policy({bundle.id: bundle for bundle in bundles}, registry, bundles[0].id)


def _entries(path: Path) -> list[EntryFile]:
    raw = read_file(path)
    try:
        load_registry(raw)
    except CoreError as error:
        raise PolicyFileError(f"{path}: {error}") from error
    return RegistryFile.model_validate(json_object(raw)).entries


def unsigned_bundle(path: Path) -> Bundle:
    """The bundle in a source file, with what it includes. Raises PolicyFileError."""
    try:
        return load_bundle(whole_bundle(path))
    except CoreError as error:
        raise PolicyFileError(f"{path}: {error}") from error
    except OSError as error:
        raise PolicyFileError(f"cannot read {error.filename or path}: {error.strerror}") from error
