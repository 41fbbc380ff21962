"""A proposed action, from the session's values to a decision: seen before, then judged, then counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.actions.assessment import (
    NOTHING_REMEMBERED,
    assess,
    object_to,
    object_to_lateness,
    read_seen,
    recorded,
    recorded_seen,
    remarks,
    seen_by,
    standing_of,
    unregistered,
    used_entries,
)
from app.core.actions.authority import OBLIGATIONS, required_role
from app.core.actions.outcomes import settle_early
from app.core.actions.pipeline import Evaluation, run
from app.core.actions.stage import Decided, StageResult
from app.core.actions.verdict import Ruling, count, ids_of, repeated, rule, verdict_record
from app.core.foundation.arrival import escalation_id, verdict_id
from app.core.foundation.canonical import hex_of, wire_int
from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.state.decision import Decision
from app.core.state.draft import SessionDraft
from app.core.state.expiry import time_records
from app.core.state.reservations import Sighting
from app.core.state.session import who
from topics.catalog import ESCALATIONS

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from app.core.actions.assessment import ActionSeen, KnownAction
    from app.core.actions.stage import ActionContext, RememberingGate, StageOrder
    from app.core.foundation.arrival import Arrival
    from app.core.foundation.requests import Answer, Request
    from app.core.policy.policy import PointParts, Standing
    from app.core.state.decision import Shared
    from app.core.state.remembered import GateMemory
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
_MILLISECOND_NS = 1_000_000


class RuledAction(NamedTuple):
    """What came of an action. `records`: its verdict, and the escalation that it opens. `counted`: the action
    as the session counts it, None for one that was counted before; `room`: it can be remembered. `gates`: by
    their names what gates remember from here on."""

    records: tuple[OutRecord, ...]
    ruling: Ruling
    counted: Sighting | None
    room: bool = False
    gates: Mapping[str, GateMemory | None] = NOTHING_REMEMBERED


def evaluate(
    parts: PointParts, arrival: Arrival, action: ProposedAction, state: SessionState, _: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on an action: read its session, judge it, and keep what came of it."""
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    standing = standing_of(parts, action)
    seen = read_seen(draft, standing.principal.owner, action)
    judged = yield from judge(parts, arrival, action, standing, seen)
    return _keep(parts, draft, seen, judged)


def judge_again(
    parts: PointParts, arrival: Arrival, action: ProposedAction, verdict: Mapping[str, Any]
) -> Generator[Request, Answer, OutRecord]:
    """The verdict on an action of which `verdict` says what was seen of its session, and how long it lay."""
    waited = replace(arrival, waited_ms=verdict.get("waited_ms") or 0)
    judged = yield from judge(parts, waited, action, standing_of(parts, action), recorded_seen(verdict))
    return judged.records[0]


def judge(
    parts: PointParts, arrival: Arrival, action: ProposedAction, standing: Standing, seen: ActionSeen
) -> Generator[Request, Answer, RuledAction]:
    """Judge an action by the stages of its bundle, on what was seen of its session.

    An id seen within its window is answered from memory: no stage runs.
    """
    began = parts.stopwatch()
    gates: StageOrder = parts.stages[standing.principal.bundle.hash]
    if seen.remembered:
        seen = seen_by(seen, standing.principal.bundle.stages)
    context = assess(parts, action, standing, seen, arrival.timestamp_ms)
    known = seen.known
    if known is not None:
        seen = seen if seen.room else seen._replace(room=True)
        if known.digest == hex_of(arrival.digest):
            return _repeat(arrival, context, seen, known)
        return _decide(arrival, context, gates.remembering, seen, Evaluation("BLOCK", ACTION_ID_CONFLICT))
    if not seen.room:
        return _decide(arrival, context, gates.remembering, seen, Evaluation("BLOCK", SESSION_CAPACITY))
    evaluation = None if standing.accepted else unregistered(context)
    if evaluation is None:
        evaluation = yield from run(gates.stages, context, parts.stopwatch)
    if seen.dispute is not None and evaluation.outcome == "ALLOW":
        _escalate(evaluation, seen.dispute)
    if action.deadline_ms is not None:
        arrival = _waited(parts, arrival, began)
    if action.deadline_ms is not None or not standing.accepted:
        object_to(context, evaluation, arrival.waited_ms)
    return _decide(arrival, context, gates.remembering, seen, evaluation)


def _escalate(evaluation: Evaluation, dispute: str) -> None:
    """What no gate objects to needs a person all the same while an outcome of its session is disputed."""
    reason = f"{OUTCOME_DISPUTED}: an outcome of {dispute} that is not signed claims more than it may count"
    evaluation.settle("ESCALATE", reason)
    evaluation.obligations.clear()
    evaluation.list_gate(DISPUTE_GATE, StageResult("escalate", reason, {"action_id": dispute}), 0)


def _waited(parts: PointParts, arrival: Arrival, began_ns: int) -> Arrival:
    """With the time that the stages took; a rerun's stopwatch stands still."""
    return replace(arrival, waited_ms=arrival.waited_ms + (parts.stopwatch() - began_ns) // _MILLISECOND_NS)


def _decide(
    arrival: Arrival,
    context: ActionContext,
    gates: tuple[RememberingGate, ...],
    seen: ActionSeen,
    evaluation: Evaluation,
) -> RuledAction:
    action, ruling = context.action, rule(evaluation.outcome, context)
    about = _about(arrival, context, seen, context.rows if ruling.carried else None)
    if evaluation.entries:
        about["registry_hashes"] = about["registry_hashes"] | evaluation.entries
    if ruling.waits:
        about["escalationId"] = escalation_id(arrival.decision_id)
    verdict = verdict_record(arrival, about, evaluation, ruling, action.session_id)
    counted = Sighting(
        who(context.tenant, action.agent_id),
        action.action_id,
        hex_of(arrival.digest),
        arrival.offset,
        context.rows,
        context.bundle.outcomes.unsigned_factor,
    )
    records = (verdict, opened(arrival, context, evaluation.reason or "")) if ruling.waits else (verdict,)
    room = seen.room and context.agent is not None
    if not room or not gates:
        return RuledAction(records, ruling, counted, room)
    decided = Decided(ruling.real, ruling.carried, seen.known is not None)
    kept = {gate.name: gate.keep(context, decided) for gate in gates}
    return RuledAction(records, ruling, counted, room, kept)


def _repeat(arrival: Arrival, context: ActionContext, seen: ActionSeen, known: KnownAction) -> RuledAction:
    ruling = repeated(known.mark, context.mode)
    evaluation = Evaluation(ruling.real)
    object_to_lateness(context, evaluation, arrival.waited_ms)
    if evaluation.outcome != ruling.real:
        ruling = ruling.stricter(evaluation.outcome, context.mode)
    first = f"{arrival.topic}:{arrival.partition}:{known.offset}"
    about = _about(arrival, context, seen, None)
    about["duplicate_of"] = verdict_id(first)
    about["escalationId"] = escalation_id(first) if ruling.waits else None
    if ruling.real == "ALLOW":
        evaluation.obligations += OBLIGATIONS[context.tier]
    verdict = verdict_record(arrival, about, evaluation, ruling, context.action.session_id)
    return RuledAction((verdict,), ruling, None)


def _keep(parts: PointParts, draft: SessionDraft, seen: ActionSeen, judged: RuledAction) -> Decision:
    """The session's change and all records: outcomes that came before their action settle it now."""
    records, counted = [*judged.records], judged.counted
    if draft.refused or draft.folded:
        records = time_records(draft) + records
    if counted is not None:
        count(draft, counted, judged.ruling, known=seen.known is not None, room=judged.room)
        for gate, kept in judged.gates.items():
            draft.remember_for_gate(counted.owner, gate, kept)
        if draft.early:
            records += settle_early(parts, draft, counted.owner, counted.action_id, counted.offset)
    return Decision(draft.transition(), records)


def _about(arrival: Arrival, context: ActionContext, seen: ActionSeen, counted: int | None) -> dict[str, Any]:
    """What the verdict says of the action, its policy and its session; `counted` as in `recorded`."""
    action = context.action
    about: dict[str, Any] = {
        **ids_of(action, None if context.agent is None else context.tenant),
        "mode": context.mode,
        "enforcement": context.org.enforcement,
        "tier": context.tier,
        "policy_bundle_id": context.bundle_asked_for,
        "bundle_hash": context.bundle.hash,
        "registry_hashes": used_entries(context) if context.freezes else context.entries,
        "stages": context.bundle.stages,
        "advisories": remarks(context),
        "session": recorded(seen, context.flags, counted),
        "rows_reserved": wire_int(counted or 0),
    }
    if action.deadline_ms is not None:
        about["waited_ms"] = arrival.waited_ms
    return about
