"""Whether an agent's entry may lead the agent to another bundle with one approver's signature.

A bundle that relaxes needs two approvers, and so does an entry that leads an agent to a laxer bundle:
otherwise one approver could relax for this agent whatever two have to agree on. The bundles are those in
force when the entry comes, compared like two revisions of one. Where no bundle is in force, nothing relaxes.

- `policy_bundle_id` leads to a policy bundle. An agent's first entry counts too: before it the default bundle
  judged the agent.
- `tenant_id` leads to the quality bundle of the tenant, to a tenant in shadow mode, and out of one that is
  frozen. A first entry does not count: two approvers have signed which bundle the tenant names.

Which bundle is the default one is a setting of the workers and not in the topics. So where an agent or tenant
names none, any bundle in force may be the one that judges it; and so where an agent names a policy bundle
that is not in force, because the default one judges it then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.trust.delegated_freezes import find_tenant_freeze
from sluice.core.trust.refused import ENOUGH, demand_second
from sluice.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE
from sluice.core.trust.signing_authority import ORG, SHADOW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.trust.refused import Reason
    from sluice.core.trust.revisions import Accepted, Revisions

    AnyBundle = Bundle | QualityBundle
    Compare = Callable[[AnyBundle, AnyBundle], Sequence[str]]
    Newest = Mapping[tuple[str, str], Accepted]

AGENT = "agent"
_DEFAULT = {BUNDLE: "the default bundle", QUALITY_BUNDLE: "the default quality bundle"}


def object_to_move(
    entry: Accepted, revisions: Revisions, approvers: Collection[str], compare: Compare
) -> Reason | None:
    """Why an agent's entry does not count with these approvers: one alone leads it to a laxer bundle.

    `compare` returns what the second of two bundles relaxes, in sentences.
    """
    if len(approvers) >= ENOUGH:
        return None
    newest, bundles = revisions.newest, revisions.bundles
    previous, after = newest.get((AGENT, entry.statement.id)), entry.document["spec"]
    before = {} if previous is None else previous.document["spec"]
    names = before.get("policy_bundle_id"), after.get("policy_bundle_id")
    laxer = _find_laxer_policy(*names, bundles, compare)
    if laxer is None and previous is not None:
        laxer = _find_shadow(before["tenant_id"], after["tenant_id"], newest)
        laxer = laxer or _find_thaw(before["tenant_id"], after["tenant_id"], newest)
    if laxer is None and previous is not None:
        ids = [_get_quality_id(spec["tenant_id"], newest) for spec in (before, after)]
        laxer = _find_laxer_quality(ids[0], ids[1], bundles, compare)
    return (
        None if laxer is None else demand_second(approvers, f"agent {entry.statement.id} goes from {laxer}")
    )


def _find_shadow(old: str, new: str, newest: Newest) -> str | None:
    """In words: to a tenant in which nothing is enforced, from one in which it is."""
    modes = [_get_org(tenant, newest).get("enforcement") for tenant in (old, new)]
    return f"tenant {old} to {new}, which is in {SHADOW}" if modes[1] == SHADOW != modes[0] else None


def _find_thaw(old: str, new: str, newest: Newest) -> str | None:
    """In words: out of a tenant that is frozen."""
    freeze = None if old == new else find_tenant_freeze(old, newest)
    return None if freeze is None else f"tenant {old}, which {freeze.key} stops, to {new}"


def _get_org(tenant: str, newest: Newest) -> Mapping[str, Any]:
    org = newest.get((ORG, tenant))
    return {} if org is None else org.document["spec"]


def _find_laxer_policy(old: str | None, new: str | None, bundles: Newest, compare: Compare) -> str | None:
    old, new = (name if (BUNDLE, name) in bundles else None for name in (old, new))
    if old == new:
        return None
    return _find_relaxation(BUNDLE, old, new, bundles, compare)


def _find_laxer_quality(old: str | None, new: str | None, bundles: Newest, compare: Compare) -> str | None:
    """A tenant whose quality bundle is not in force reads nothing."""
    if old == new or not _is_in_force(new, bundles):
        return None
    if not _is_in_force(old, bundles):
        return f"quality bundle {old}, which is not in force, to {new or _DEFAULT[QUALITY_BUNDLE]}"
    return _find_relaxation(QUALITY_BUNDLE, old, new, bundles, compare)


def _is_in_force(name: str | None, bundles: Newest) -> bool:
    return name is None or (QUALITY_BUNDLE, name) in bundles


def _get_quality_id(tenant: str, newest: Newest) -> str | None:
    return _get_org(tenant, newest).get("quality_bundle_id")


def _find_relaxation(
    kind: str, old: str | None, new: str | None, bundles: Newest, compare: Compare
) -> str | None:
    """In words: from which bundle to which, and the first relaxation."""
    for before in _list_possible(kind, old, bundles):
        for after in _list_possible(kind, new, bundles):
            relaxed = compare(before, after)
            if relaxed:
                names = [_DEFAULT[kind] if name is None else name for name in (old, new)]
                unknown = before.id if old is None else after.id if new is None else None
                where = "" if unknown is None else f", which may be {unknown}"
                return f"{names[0]} to {names[1]}{where}: {relaxed[0]}"
    return None


def _list_possible(kind: str, name: str | None, bundles: Newest) -> Iterator[AnyBundle]:
    """The bundle in force under a name; without one every bundle of the kind."""
    for (of, id_), accepted in bundles.items():
        bundle = accepted.bundle or accepted.quality
        if bundle is not None and of == kind and name in {None, id_}:
            yield bundle
