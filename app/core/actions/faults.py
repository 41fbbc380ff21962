"""Answers where the core itself failed on an action: denied, and in standard mode allowed with an advisory.

Product.md, "Bad input". Nothing here runs a stage; it touches as little as it can of what may have raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.pipeline import Evaluation
from app.core.actions.registration import lateness
from app.core.actions.ruling import Ruling, count
from app.core.actions.verdict import Findings, Sight, verdict_record
from app.core.foundation.dead_letters import INTERNAL_ERROR, subject_of
from app.core.policy.standing import rows_counted
from app.core.registry.registry_entries import hashes_of
from app.core.state.acknowledgement import acknowledgement
from app.core.state.decision import Decision
from app.core.state.draft import SessionDraft
from app.core.state.expiry import time_records
from app.core.state.reservations import Sighting
from app.core.state.session import totals

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.foundation.chain import OutRecord
    from app.core.policy.point import PointParts
    from app.core.policy.policy import Policy, Principal
    from app.core.state.session import SessionState
    from topics.records import ProposedAction

DENIED = Ruling("BLOCK", None, carried=False, waits=False)


def unread(parts: PointParts, arrival: Arrival, letter: OutRecord) -> Decision:
    """Deny an action without reading it; `letter` is its dead letter."""
    default = parts.policy.default
    findings = Findings(DENIED, "high_stakes", "enforce", None, default.hash, {}, ids=_ids(None, None))
    evaluation = Evaluation("BLOCK", INTERNAL_ERROR)
    return Decision(None, [verdict_record(arrival, findings, evaluation, subject_of(arrival)), letter])


def fault(
    parts: PointParts, arrival: Arrival, action: ProposedAction, state: SessionState, letter: OutRecord
) -> Decision:
    """Answer an action that made the core raise, on the session's values."""
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    records = time_records(draft)
    registry = parts.policy.registry
    principal = parts.policy.principal(action.agent_id)
    agent, tenant, org, bundle = principal.agent, principal.tenant, principal.org, principal.bundle
    mode = action.mode or "high_stakes"
    late = lateness(action, arrival.waited_ms)
    ruling = _ruling(mode, org.enforcement, late=late is not None)
    most = bundle.largest_rows_upper_bound
    rows = rows_counted(registry.tools.get(action.tool_name), action.rows_affected, most) or most
    before = totals(draft.account(tenant))
    digest, factor = arrival.digest[len("sha256:") :], bundle.outcomes.unsigned_factor
    owner = principal.owner
    seen = Sighting(owner, action.action_id, digest, arrival.offset, rows, factor)
    flags = acknowledgement(draft.served_flags(owner), action.acknowledged_flags)
    room = draft.has_room(owner)
    known, dispute = draft.action(owner, action.action_id), draft.dispute(tenant)
    sight = Sight(known, room, bundle.stages, flags, dispute)
    reserved = count(draft, seen, ruling, room=sight.room and agent is not None)
    findings = Findings(
        ruling,
        mode,
        org.enforcement,
        action.policy_bundle_id or principal.bundle_asked_for,
        bundle.hash,
        _entries(parts.policy, principal, action),
        before,
        totals(draft.account(tenant)),
        _ids(action, principal.tenant_id),
        rows_reserved=reserved,
        waited_ms=None if action.deadline_ms is None else arrival.waited_ms,
        advisories=[_advisory()],
        sight=sight,
    )
    evaluation = Evaluation(ruling.real, None if ruling.real == "ALLOW" else INTERNAL_ERROR)
    verdict = verdict_record(arrival, findings, evaluation, action.session_id)
    return Decision(draft.transition(), [*records, verdict, letter])


def _entries(policy: Policy, principal: Principal, action: ProposedAction) -> dict[str, str]:
    """Hashes of what stood in the registry for this action, as far as it can be told without a stage."""
    tool = policy.registry.tools.get(action.tool_name)
    freezes = policy.freezes_of(principal, action.session_id)
    return hashes_of(principal.agent, tool, principal.org, *freezes)


def _ruling(mode: str, enforcement: str, *, late: bool) -> Ruling:
    """In standard the caller goes on; too late for its deadline, it is not told that it may."""
    if mode == "standard":
        real = "ESCALATE" if late else "ALLOW"
        shadow = enforcement == "shadow"
        return Ruling("ALLOW" if shadow else real, real if shadow else None, carried=True, waits=False)
    if enforcement == "shadow":
        return Ruling("ALLOW", "BLOCK", carried=True, waits=False)
    return DENIED


def _ids(action: ProposedAction | None, tenant: str | None) -> dict[str, Any]:
    return {
        "action_id": action and action.action_id,
        "agent_id": action and action.agent_id,
        "session_id": action and action.session_id,
        "tenant_id": tenant,
        "traceId": action and action.trace_id,
        "request_id": action and action.request_id,
    }


def _advisory() -> dict[str, Any]:
    return {
        "source": "sluice.core",
        "text": "the gates failed on this action (internal_error); its dead letter has the reason",
        "severity": "critical",
    }
