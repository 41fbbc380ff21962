"""Whose signatures a freeze needs: a gateway's for one that stops, two people's for the end of a wide one.

Whoever may sign freezes stops a tenant, or everything, alone. To let it go on takes two of them: to thaw it,
to go down to the stage "ask", and to name another subject in its place. So does taking an agent out of a
tenant that is frozen (bundle_moves.py). An approver who decides for some tenants alone stops what he likes,
and lets go on what is theirs.

A freeze is fail-safe: it denies, and lets nothing through. So a registered delegate may sign one for a person
who may answer escalations of the tenant. A thaw lets through what was stopped: it needs the own key of an
approver who may sign freezes. So no entry of a delegate may take the place of a freeze that is in force, nor
use up the revisions with which it could be lifted; one that only asks, it may tighten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from sluice.core.registry.agent_keys import find_key
from sluice.core.registry.freezes import ALL, ASK, SESSION, FreezeSpec
from sluice.core.trust.refused import ENOUGH, Reason, demand_second
from sluice.core.trust.signed_entries import APPROVER
from sluice_topics.records.base import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.registry.agent_keys import Delegate
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.freezes import FreezeBy, Subject
    from sluice.core.trust.revisions import Accepted

FREEZE, DELEGATE, AGENT = "freeze", "delegate", "agent"
TENANT: Subject = "tenant"
WIDE = frozenset((ALL, TENANT))
"""Subjects of which two people end the freeze."""
DECIDES: frozenset[str] = frozenset(get_args(Role))
"""The roles that answer an escalation; an override is such an answer."""


def object_to_freeze(
    entry: Accepted, newest: Mapping[tuple[str, str], Accepted], approvers: Mapping[str, Approver]
) -> Reason | None:
    """Why a freeze that these approvers signed, or a delegate alone if there are none, does not count;
    `newest` entries by kind and id. An approver signs for nobody else: `by` would name the wrong person."""
    spec = FreezeSpec.model_validate(entry.document["spec"])
    if approvers:
        description = "only a delegate signs a freeze for a person; this one has an approver's own signature"
        if spec.by is not None:
            return Reason("invalid_entry", "$.spec.by", description)
        return _object_to_release(entry, spec, newest, approvers)
    tenant = _find_tenant(spec, newest)
    if not spec.active or spec.by is None or tenant is None or spec.subject in WIDE:
        description = "a delegate freezes an agent, or a session of a tenant, for a person; it thaws nothing"
        return Reason("key_not_allowed", "$.signatures", description)
    objection = _object_to_delegate(entry, spec.by, tenant, newest) or _object_to_place(entry, newest)
    return None if objection is None else Reason("key_not_allowed", "$.signatures", objection)


def find_tenant_freeze(tenant: str, newest: Mapping[tuple[str, str], Accepted]) -> Accepted | None:
    """An entry in force that freezes this tenant; None: nothing does."""
    return _find_freeze((TENANT, tenant), newest)


def find_wide_freeze(tenant: str, newest: Mapping[tuple[str, str], Accepted]) -> Accepted | None:
    """An entry in force that freezes this tenant, or everything; None: nothing does."""
    return find_tenant_freeze(tenant, newest) or _find_freeze((ALL, ALL), newest)


def _find_freeze(subject: tuple[str, str], newest: Mapping[tuple[str, str], Accepted]) -> Accepted | None:
    for (kind, _), entry in newest.items():
        if kind == FREEZE:
            spec = FreezeSpec.model_validate(entry.document["spec"])
            if spec.active and (spec.subject, spec.subject_id) == subject:
                return entry
    return None


def _object_to_release(
    entry: Accepted,
    spec: FreezeSpec,
    newest: Mapping[tuple[str, str], Accepted],
    approvers: Mapping[str, Approver],
) -> Reason | None:
    """Why these approvers may not let go on what a freeze stops: none decides for its tenant, or one alone
    would let a tenant, or everything, go on."""
    previous = newest.get((FREEZE, entry.statement.id))
    if previous is None:
        return None
    before = FreezeSpec.model_validate(previous.document["spec"])
    if not before.active or (spec.active and _covers(spec, before)):
        return None
    tenant = _find_tenant(before, newest)
    deciding = [
        name for name, approver in approvers.items() if approver.tenants is None or tenant in approver.tenants
    ]
    if not deciding:
        where = "all tenants" if tenant is None else tenant
        description = (
            f"{' and '.join(sorted(approvers))} may not let go on what {previous.key} stops in {where}"
        )
        return Reason("key_not_allowed", "$.signatures", description)
    if before.subject not in WIDE or len(deciding) >= ENOUGH:
        return None
    what = "everything" if before.subject == ALL else f"tenant {before.subject_id}"
    return demand_second(deciding, f"it lets {what} go on, which {previous.key} stops")


def _covers(spec: FreezeSpec, before: FreezeSpec) -> bool:
    """Whether a freeze stops all that the one before did."""
    is_as_wide = spec.tenant_id in {None, before.tenant_id}
    return _is_same_subject(spec, before) and is_as_wide and not _is_weaker(spec, before)


def _is_same_subject(spec: FreezeSpec, before: FreezeSpec) -> bool:
    return (spec.subject, spec.subject_id) == (before.subject, before.subject_id)


def _is_weaker(spec: FreezeSpec, before: FreezeSpec) -> bool:
    return spec.stage == ASK != before.stage


def _find_tenant(spec: FreezeSpec, newest: Mapping[tuple[str, str], Accepted]) -> str | None:
    """Whose agent or session it freezes, or which tenant; None: not of one tenant."""
    if spec.subject == SESSION:
        return spec.tenant_id
    if spec.subject == TENANT:
        return spec.subject_id
    agent = newest.get((AGENT, spec.subject_id)) if spec.subject == AGENT else None
    return None if agent is None else str(agent.document["spec"]["tenant_id"])


def _object_to_delegate(
    entry: Accepted, by: FreezeBy, tenant: str, newest: Mapping[tuple[str, str], Accepted]
) -> str | None:
    """Why this delegate did not sign it, or not for this person and tenant."""
    named, signed_for = newest.get((DELEGATE, by.delegate_id)), newest.get((APPROVER, by.approver_id))
    delegate = None if named is None else named.delegate
    if delegate is None or not any(_is_key(delegate, signer, entry.at_ms) for signer in entry.signers):
        return f"no valid key of a delegate {by.delegate_id} signed it"
    if tenant not in delegate.tenants:
        return f"delegate {delegate.id} does not sign for people of {tenant}"
    person = None if signed_for is None else signed_for.approver
    if person is None or not _may_answer(person, delegate, tenant, entry.at_ms):
        return f"{by.approver_id} may answer no escalations of {tenant} through delegate {delegate.id}"
    return None


def _is_key(delegate: Delegate, keyid: str, at_ms: int) -> bool:
    return not isinstance(find_key(delegate.keys, keyid, at_ms), str)


def _may_answer(person: Approver, delegate: Delegate, tenant: str, at_ms: int) -> bool:
    return person.acts_for(tenant, at_ms) and bool(person.roles & delegate.roles & DECIDES)


def _object_to_place(entry: Accepted, newest: Mapping[tuple[str, str], Accepted]) -> str | None:
    """Why it may not follow the entry of its id."""
    before = newest.get((FREEZE, entry.statement.id))
    if before is not None and before.document["spec"].get("active", True):
        spec, previous = (FreezeSpec.model_validate(frozen.document["spec"]) for frozen in (entry, before))
        is_same = _is_same_subject(spec, previous) and spec.tenant_id == previous.tenant_id
        if not (is_same and _is_weaker(previous, spec)):
            return f"{before.key} is in force: only an approver's own key changes it"
    following = 1 if before is None else before.statement.revision + 1
    if entry.statement.revision != following:
        return f"a freeze signed by a delegate is the next revision of its id, {following}"
    return None
