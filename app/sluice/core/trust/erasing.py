"""Erasures: the entries by which keys of persons are erased, and what may not follow one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.registry.erasures import MOST_KEYS, ErasureSpec
from sluice.core.registry.registry_entries import EntryFile, Kind
from sluice.core.trust.refused import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.registry.registry import Registry
    from sluice.core.trust.revisions import Accepted

ERASURE: Kind = "erasure"


def object_to_erasure(entry: Accepted, newest: Mapping[tuple[str, str], Accepted]) -> Reason | None:
    """Why an entry may not follow the one of its id: what is destroyed cannot come back, so a revision that
    says so would lie."""
    previous = newest.get((ERASURE, entry.statement.id))
    if previous is None:
        return None
    before, after = (ErasureSpec.model_validate(each.document["spec"]) for each in (previous, entry))
    if set(before.key_ids) - set(after.key_ids):
        return Reason("invalid_entry", "$.spec.key_ids", f"{previous.key} erased keys that are not in it")
    if before.stage == "destroyed" != after.stage:
        return Reason("invalid_entry", "$.spec.stage", f"{previous.key} says that the keys are destroyed")
    return None


def make_erasure_entries(registry: Registry, key_ids: Sequence[str], reason: str) -> list[EntryFile]:
    """The entries, to be signed, that erase those of the keys that none in force erases."""
    new = [key_id for key_id in key_ids if key_id not in registry.erasures]
    batches = [new[begin : begin + MOST_KEYS] for begin in range(0, len(new), MOST_KEYS)]
    return [_make_entry(batch[0], 1, ErasureSpec(key_ids=batch, reason=reason)) for batch in batches]


def make_destroyed_entries(registry: Registry, key_ids: Sequence[str]) -> list[EntryFile]:
    """The entries, to be signed, which say of every erasure in force, all of whose keys are among these, that
    the keys are destroyed."""
    destroyed, made = set(key_ids), dict[str, EntryFile]()
    for erasure in registry.erasures.values():
        if erasure.stage == "ordered" and destroyed.issuperset(erasure.key_ids):
            spec = ErasureSpec(key_ids=list(erasure.key_ids), reason=erasure.reason, stage="destroyed")
            made[erasure.id] = _make_entry(erasure.id, erasure.revision + 1, spec)
    return list(made.values())


def list_ordered_keys(registry: Registry) -> list[str]:
    """The keys that are erased, and of which nobody has said that they are destroyed."""
    return [key_id for key_id, erasure in registry.erasures.items() if erasure.stage == "ordered"]


def _make_entry(name: str, revision: int, spec: ErasureSpec) -> EntryFile:
    return EntryFile(kind=ERASURE, id=name, revision=revision, spec=spec.model_dump())
