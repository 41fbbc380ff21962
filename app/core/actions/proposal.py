"""A proposed action, from the session's values to a decision: seen before, then judged, then counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.assessment import assess, used_entries
from app.core.actions.counting import count
from app.core.actions.escalation import opened
from app.core.actions.pipeline import Evaluation, run
from app.core.actions.registration import unregistered
from app.core.actions.remarks import remarks
from app.core.actions.ruling import Ruling, repeated, rule
from app.core.actions.tier_auth import OBLIGATIONS
from app.core.actions.verdict import Findings, Sight, verdict_record
from app.core.decision import Decision
from app.core.draft import SessionDraft
from app.core.expiry import time_records
from app.core.ids import escalation_id, verdict_id
from app.core.outcomes import settle_early
from app.core.reservations import Sighting
from app.core.session import totals

if TYPE_CHECKING:
    from collections.abc import Generator

    from app.core.actions.stage import ActionContext
    from app.core.arrival import Arrival
    from app.core.point import PointParts
    from app.core.requests import Answer, Request
    from app.core.session import RecentAction, SessionState
    from topics.records import ProposedAction

ACTION_ID_CONFLICT = "action_id_conflict"
SESSION_CAPACITY = "session_capacity"
_DIGEST_PREFIX = len("sha256:")


def evaluate(
    parts: PointParts, arrival: Arrival, action: ProposedAction, state: SessionState
) -> Generator[Request, Answer, Decision]:
    """Decide on an action. An id seen within its window is answered from memory: no stage runs."""
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    context = assess(parts, action, draft, arrival.timestamp_ms)
    known = draft.action(context.tenant, action.action_id)
    room = known is not None or draft.has_room(context.tenant)
    sight = Sight(known, room, parts.stage_names, context.flags)
    if known is not None and known.digest == arrival.digest[_DIGEST_PREFIX:]:
        return _repeat(arrival, context, draft, known, sight)
    if known is not None:
        return _decide(arrival, context, draft, Evaluation("BLOCK", ACTION_ID_CONFLICT), sight)
    if not sight.room:
        return _decide(arrival, context, draft, Evaluation("BLOCK", SESSION_CAPACITY), sight)
    evaluation = unregistered(context)
    if evaluation is None:
        evaluation = yield from run(parts.stages, context, parts.stopwatch)
    return _decide(arrival, context, draft, evaluation, sight)


def _decide(
    arrival: Arrival, context: ActionContext, draft: SessionDraft, evaluation: Evaluation, sight: Sight
) -> Decision:
    action, tenant = context.action, context.tenant
    ruling = rule(evaluation.outcome, context)
    records = time_records(draft)
    findings = _findings(context, ruling, draft, sight)
    if evaluation.entries:
        findings.registry_hashes = findings.registry_hashes | evaluation.entries
    seen = Sighting(tenant, action.action_id, arrival.digest[_DIGEST_PREFIX:], arrival.offset, context.rows)
    findings.rows_reserved = count(draft, seen, ruling, room=sight.room and sight.known is None)
    findings.after = totals(draft.account(tenant))
    if ruling.waits:
        findings.escalation_id = escalation_id(arrival.decision_id)
    records.append(verdict_record(arrival, findings, evaluation, action.session_id))
    if ruling.waits:
        records.append(opened(arrival, context, evaluation.reason or ""))
    records += settle_early(draft, tenant, action.action_id)
    return Decision(draft.transition(), records)


def _repeat(
    arrival: Arrival, context: ActionContext, draft: SessionDraft, known: RecentAction, sight: Sight
) -> Decision:
    ruling = repeated(known.mark, context.mode)
    records = time_records(draft)
    first = f"{arrival.topic}:{arrival.partition}:{known.offset}"
    findings = _findings(context, ruling, draft, sight)
    findings.after = findings.before
    findings.duplicate_of = verdict_id(first)
    findings.escalation_id = escalation_id(first) if ruling.waits else None
    evaluation = Evaluation(ruling.real)
    if ruling.real == "ALLOW":
        evaluation.obligations += OBLIGATIONS[context.tier]
    records.append(verdict_record(arrival, findings, evaluation, context.action.session_id))
    return Decision(draft.transition(), records)


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
