"""Erasures: the entries by which keys of persons are erased, and what may not follow one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluice.core.registry.erasures import MOST_KEYS, ErasureSpec, make_erasure_id
from sluice.core.registry.registry_entries import EntryFile, Kind
from sluice.core.trust.refused import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.registry import Registry
    from sluice.core.trust.revisions import Accepted

ERASURE: Kind = "erasure"
TenantKey = tuple[str, str]
"""A tenant, and the id of a key that is to be its."""


class SortedKeys(NamedTuple):
    """Keys that erasures name. `ordered`: those to be destroyed that are their tenant's or do not lie there;
    `again`: those that lie there though they were destroyed: who rewrapped keys meanwhile and was killed
    leaves one; `foreign`: those of another tenant, for which an erasure orders nothing."""

    ordered: list[TenantKey]
    again: list[TenantKey]
    foreign: list[TenantKey]

    def list_wanted(self) -> list[str]:
        """The ids of those to be deleted."""
        return list(dict.fromkeys(key_id for _, key_id in (*self.ordered, *self.again)))


def object_to_erasure(
    entry: Accepted, newest: Mapping[tuple[str, str], Accepted], approvers: Mapping[str, Approver]
) -> Reason | None:
    """Why an entry does not count: nobody who signed it decides for its tenant; or it may not follow the one
    of its id: what is destroyed cannot come back, so a revision that says so would lie."""
    tenant = ErasureSpec.model_validate(entry.document["spec"]).tenant_id
    if not any(each.tenants is None or tenant in each.tenants for each in approvers.values()):
        description = f"nobody who signed it decides for the tenant {tenant}"
        return Reason("key_not_allowed", "$.spec.tenant_id", description)
    previous = newest.get((ERASURE, entry.statement.id))
    if previous is None:
        return None
    before, after = (ErasureSpec.model_validate(each.document["spec"]) for each in (previous, entry))
    if set(before.key_ids) - set(after.key_ids):
        return Reason("invalid_entry", "$.spec.key_ids", f"{previous.key} erased keys that are not in it")
    if before.stage == "destroyed" != after.stage:
        return Reason("invalid_entry", "$.spec.stage", f"{previous.key} says that the keys are destroyed")
    return None


def make_erasure_entries(
    registry: Registry, tenant: str, key_ids: Sequence[str], reason: str
) -> list[EntryFile]:
    """The entries, to be signed, that erase those of a tenant's keys that none in force erases."""
    new = [key_id for key_id in key_ids if (tenant, key_id) not in registry.erasures]
    batches = [new[begin : begin + MOST_KEYS] for begin in range(0, len(new), MOST_KEYS)]
    specs = [ErasureSpec(tenant_id=tenant, key_ids=batch, reason=reason) for batch in batches]
    return [_make_entry(1, spec) for spec in specs]


def make_destroyed_entries(
    registry: Registry, keys: Iterable[TenantKey], foreign: Iterable[TenantKey] = ()
) -> list[EntryFile]:
    """The entries, to be signed, which say of every erasure in force, all of whose keys are among these, that
    the keys are destroyed. `foreign`: keys that are another tenant's: an erasure that names one erases
    nothing of it, and waits for its own alone."""
    destroyed, made = set(keys), dict[str, EntryFile]()
    settled = destroyed.union(foreign)
    for erasure in registry.erasures.values():
        named = {(erasure.tenant_id, key_id) for key_id in erasure.key_ids}
        if erasure.stage == "ordered" and named <= settled and named & destroyed:
            spec = ErasureSpec(
                tenant_id=erasure.tenant_id,
                key_ids=list(erasure.key_ids),
                reason=erasure.reason,
                stage="destroyed",
            )
            made[erasure.id] = _make_entry(erasure.revision + 1, spec)
    return list(made.values())


def list_destroyed_keys(registry: Registry) -> list[TenantKey]:
    """The keys of which an erasure says that they are destroyed."""
    return [key for key, erasure in registry.erasures.items() if erasure.stage == "destroyed"]


def list_ordered_keys(registry: Registry) -> list[TenantKey]:
    """The keys that are erased, and of which nobody has said that they are destroyed."""
    return [key for key, erasure in registry.erasures.items() if erasure.stage == "ordered"]


def sort_keys(
    ordered: Sequence[TenantKey], destroyed: Sequence[TenantKey], owners: Mapping[str, str]
) -> SortedKeys:
    """What is to be done with the keys that erasures name. `owners`: the tenant of each that lies there."""
    return SortedKeys(
        [key for key in ordered if owners.get(key[1], key[0]) == key[0]],
        [key for key in destroyed if owners.get(key[1]) == key[0]],
        [key for key in ordered if owners.get(key[1], key[0]) != key[0]],
    )


def _make_entry(revision: int, spec: ErasureSpec) -> EntryFile:
    name = make_erasure_id(spec.tenant_id, spec.key_ids[0])
    return EntryFile(kind=ERASURE, id=name, revision=revision, spec=spec.model_dump())
