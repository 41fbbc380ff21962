"""Freezes that a gateway signs for a person who logged in to it: only such as stop something.

A freeze is fail-safe: it denies, and lets nothing through. So a registered delegate may sign one for a person
who may answer escalations of the tenant. A thaw lets through what was stopped: it needs the own key of an
approver who may sign freezes. So no entry of a delegate may take the place of a freeze that is in force, nor
use up the revisions with which it could be lifted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from sluice.core.registry.agent_keys import find_key
from sluice.core.registry.freezes import SESSION, FreezeSpec
from sluice.core.trust.refused import Reason
from sluice.core.trust.signed_entries import APPROVER
from sluice_topics.records.base import Role

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sluice.core.registry.agent_keys import Delegate
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.freezes import FreezeBy
    from sluice.core.trust.revisions import Accepted

FREEZE, DELEGATE, AGENT = "freeze", "delegate", "agent"
DECIDES: frozenset[str] = frozenset(get_args(Role))
"""The roles that answer an escalation; an override is such an answer."""


def object_to_freeze(
    entry: Accepted, newest: Mapping[tuple[str, str], Accepted], approvers: Collection[str]
) -> Reason | None:
    """Why a freeze that these approvers signed, or a delegate alone if there are none, does not count;
    `newest` entries by kind and id. An approver signs for nobody else: `by` would name the wrong person."""
    spec = FreezeSpec.model_validate(entry.document["spec"])
    if approvers:
        description = "only a delegate signs a freeze for a person; this one has an approver's own signature"
        return None if spec.by is None else Reason("invalid_entry", "$.spec.by", description)
    tenant = _find_tenant(spec, newest)
    if not spec.active or spec.by is None or tenant is None:
        description = "a delegate freezes an agent, or a session of a tenant, for a person; it thaws nothing"
        return Reason("key_not_allowed", "$.signatures", description)
    objection = _object_to_delegate(entry, spec.by, tenant, newest) or _object_to_place(entry, newest)
    return None if objection is None else Reason("key_not_allowed", "$.signatures", objection)


def _find_tenant(spec: FreezeSpec, newest: Mapping[tuple[str, str], Accepted]) -> str | None:
    """Whose agent or session it freezes; None for what no delegate freezes."""
    if spec.subject == SESSION:
        return spec.tenant_id
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
        return f"{before.key} is in force: only an approver's own key changes it"
    following = 1 if before is None else before.statement.revision + 1
    if entry.statement.revision != following:
        return f"a freeze signed by a delegate is the next revision of its id, {following}"
    return None
