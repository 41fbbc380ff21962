"""A proposed action, from the session's values to a decision: seen before, then judged, then counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.core.actions.assessment import assess, used_entries
from app.core.actions.gate import Decided, RememberingGate
from app.core.actions.outcomes import settle_early
from app.core.actions.pipeline import Evaluation, run
from app.core.actions.registration import object_to, object_to_lateness, remarks, unregistered
from app.core.actions.ruling import Ruling, count, repeated, rule
from app.core.actions.stage import StageResult
from app.core.actions.tier_auth import OBLIGATIONS, required_role
from app.core.actions.verdict import Findings, Sight, verdict_record
from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.foundation.ids import escalation_id, verdict_id
from app.core.state.decision import Decision
from app.core.state.draft import SessionDraft
from app.core.state.expiry import time_records
from app.core.state.reservations import Sighting
from app.core.state.session import totals, who
from topics.catalog import ESCALATIONS

if TYPE_CHECKING:
    from collections.abc import Generator

    from app.core.actions.stage import ActionContext
    from app.core.foundation.arrival import Arrival
    from app.core.foundation.requests import Answer, Request
    from app.core.policy.point import PointParts
    from app.core.state.decision import Shared
    from app.core.state.remembered import RecentAction
    from app.core.state.session import SessionState
    from topics.records import ProposedAction


SCHEMA = "sluice/escalation_opened/v1"


def opened(arrival: Arrival, context: ActionContext, reason: str) -> OutRecord:
    """EscalationOpened, bound to the digest of exactly this action; it expires after the bundle's time.

    It is opened where someone waits for it: in high_stakes mode under enforcement (seed 001, Gate 4).
    """
    action, now = context.action, arrival.timestamp_ms
    body = {
        "schema": SCHEMA,
        "escalation_id": escalation_id(arrival.decision_id),
        "verdict_id": verdict_id(arrival.decision_id),
        "action_id": action.action_id,
        "agent_id": action.agent_id,
        "session_id": action.session_id,
        "tenant_id": context.tenant,
        "action_digest": arrival.digest,
        "reason": reason,
        "tier": context.tier,
        "required_role": required_role(context.tier),
        "opened_at": rfc3339(now),
        "expires_at": rfc3339(now + context.bundle.escalation_ttl_ms),
        "decided_at": rfc3339(now),
        "input": arrival.coordinates(),
    }
    return OutRecord(ESCALATIONS, "EscalationOpened", body, action.session_id)


ACTION_ID_CONFLICT = "action_id_conflict"
SESSION_CAPACITY = "session_capacity"
DISPUTE_GATE = "outcomes"
OUTCOME_DISPUTED = "outcome_disputed"
_DIGEST_PREFIX = len("sha256:")
_MILLISECOND_NS = 1_000_000


def evaluate(
    parts: PointParts, arrival: Arrival, action: ProposedAction, state: SessionState, _: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on an action by the stages of its bundle.

    An id seen within its window is answered from memory: no stage runs.
    """
    began = parts.stopwatch()
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    context = assess(parts, action, draft, arrival.timestamp_ms)
    owner = who(context.tenant, action.agent_id)
    known = draft.action(owner, action.action_id)
    room = known is not None or draft.has_room(owner)
    dispute = draft.dispute(context.tenant)
    gates = context.bundle.stages
    remembered = context.remembered
    if remembered:
        remembered = {name: one for name, one in remembered.items() if name in gates}
    sight = Sight(known, room, gates, context.flags, dispute, remembered)
    if known is not None and known.digest == arrival.digest[_DIGEST_PREFIX:]:
        return _repeat(arrival, context, draft, known, sight)
    if known is not None:
        return _decide(parts, arrival, context, draft, Evaluation("BLOCK", ACTION_ID_CONFLICT), sight)
    if not sight.room:
        return _decide(parts, arrival, context, draft, Evaluation("BLOCK", SESSION_CAPACITY), sight)
    evaluation = unregistered(context)
    if evaluation is None:
        evaluation = yield from run(parts.stages[context.bundle.hash], context, parts.stopwatch)
    if evaluation.outcome == "ALLOW" and dispute is not None:
        _escalate(evaluation, dispute)
    arrival = _waited(parts, arrival, action, began)
    object_to(context, evaluation, arrival.waited_ms)
    return _decide(parts, arrival, context, draft, evaluation, sight)


def _escalate(evaluation: Evaluation, dispute: str) -> None:
    """What no gate objects to needs a person all the same while an outcome of its session is disputed."""
    reason = f"{OUTCOME_DISPUTED}: an outcome of {dispute} that is not signed claims more than it may count"
    evaluation.settle("ESCALATE", reason)
    evaluation.obligations.clear()
    evaluation.list_gate(DISPUTE_GATE, StageResult("escalate", reason, {"action_id": dispute}), 0)


def _waited(parts: PointParts, arrival: Arrival, action: ProposedAction, began_ns: int) -> Arrival:
    """With the time that the stages took, as far as it matters; a rerun's stopwatch stands still."""
    if action.deadline_ms is None:
        return arrival
    return replace(arrival, waited_ms=arrival.waited_ms + (parts.stopwatch() - began_ns) // _MILLISECOND_NS)


def _decide(
    parts: PointParts,
    arrival: Arrival,
    context: ActionContext,
    draft: SessionDraft,
    evaluation: Evaluation,
    sight: Sight,
) -> Decision:
    action, tenant = context.action, context.tenant
    ruling = rule(evaluation.outcome, context)
    records = time_records(draft)
    findings = _findings(context, ruling, draft, sight)
    if evaluation.entries:
        findings.registry_hashes = findings.registry_hashes | evaluation.entries
    findings.waited_ms = _recorded_wait(arrival, action)
    seen = Sighting(
        who(tenant, action.agent_id),
        action.action_id,
        arrival.digest[_DIGEST_PREFIX:],
        arrival.offset,
        context.rows,
        context.bundle.outcomes.unsigned_factor,
    )
    room = sight.room and context.agent is not None
    findings.rows_reserved = count(draft, seen, ruling, room=room)
    if room:
        for stage in parts.stages[context.bundle.hash]:
            if isinstance(stage, RememberingGate):
                decided = Decided(ruling.real, ruling.carried, sight.known is not None)
                draft.remember_for_gate(seen.owner, stage.name, stage.keep(context, decided))
    findings.after = totals(draft.account(tenant))
    if ruling.waits:
        findings.escalation_id = escalation_id(arrival.decision_id)
    records.append(verdict_record(arrival, findings, evaluation, action.session_id))
    if ruling.waits:
        records.append(opened(arrival, context, evaluation.reason or ""))
    records += settle_early(parts, draft, who(tenant, action.agent_id), action.action_id, arrival.offset)
    return Decision(draft.transition(), records)


def _repeat(
    arrival: Arrival, context: ActionContext, draft: SessionDraft, known: RecentAction, sight: Sight
) -> Decision:
    ruling = repeated(known.mark, context.mode)
    evaluation = Evaluation(ruling.real)
    object_to_lateness(context, evaluation, arrival.waited_ms)
    if evaluation.outcome != ruling.real:
        ruling = ruling.stricter(evaluation.outcome, context.mode)
    records = time_records(draft)
    first = f"{arrival.topic}:{arrival.partition}:{known.offset}"
    findings = _findings(context, ruling, draft, sight)
    findings.after = findings.before
    findings.waited_ms = _recorded_wait(arrival, context.action)
    findings.duplicate_of = verdict_id(first)
    findings.escalation_id = escalation_id(first) if ruling.waits else None
    if ruling.real == "ALLOW":
        evaluation.obligations += OBLIGATIONS[context.tier]
    records.append(verdict_record(arrival, findings, evaluation, context.action.session_id))
    return Decision(draft.transition(), records)


def _recorded_wait(arrival: Arrival, action: ProposedAction) -> int | None:
    return None if action.deadline_ms is None else arrival.waited_ms


def _findings(context: ActionContext, ruling: Ruling, draft: SessionDraft, sight: Sight) -> Findings:
    return Findings(
        ruling,
        context.mode,
        context.org.enforcement,
        context.bundle_asked_for,
        context.bundle.hash,
        used_entries(context),
        before=totals(draft.account(context.tenant)),
        ids=_ids(context),
        tier=context.tier,
        advisories=remarks(context),
        sight=sight,
    )


def _ids(context: ActionContext) -> dict[str, Any]:
    action = context.action
    return {
        "action_id": action.action_id,
        "agent_id": action.agent_id,
        "session_id": action.session_id,
        "tenant_id": None if context.agent is None else context.tenant,
        "traceId": action.trace_id,
        "request_id": action.request_id,
    }
