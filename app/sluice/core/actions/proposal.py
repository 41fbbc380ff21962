"""A proposed action, from the session's values to a decision: seen before, then judged, then counted.

What the judgement takes from the session is read from it, or from the verdict that records it: the two are
one value, so a rerun judges on exactly what the verdict says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.assessment import evaluate_unregistered, object_to, object_to_lateness
from sluice.core.actions.authority import OBLIGATIONS, Controls, make_escalation
from sluice.core.actions.delegation import run_proven
from sluice.core.actions.destinations import (
    choose_lesson,
    list_noted_values,
    look_up_values,
)
from sluice.core.actions.limits import (
    fingerprint_counted,
    is_spent,
    list_corrections,
    make_charge,
    must_judge_again,
    see_limits,
)
from sluice.core.actions.outcomes import settle_early
from sluice.core.actions.pipeline import Evaluation, run
from sluice.core.actions.plan import collect_gate_memories
from sluice.core.actions.stage import (
    ActionContext,
    Decided,
    StageResult,
)
from sluice.core.actions.standing_grants import (
    describe_in_verdict,
    entries_of,
    find_grant,
    make_used_record,
    read_recorded_grant,
    run_granted,
)
from sluice.core.actions.task_mandates import check_standing
from sluice.core.actions.verdict import (
    FIRST,
    GRANTED,
    Ruling,
    describe_action,
    find_ruling,
    make_usage,
    make_verdict_record,
    read_recorded_seen,
    rule,
    rule_again,
)
from sluice.core.foundation.canonical import extract_hex
from sluice.core.foundation.input_record import REPLAYED, escalation_id, verdict_id
from sluice.core.foundation.requests import LAST_PAUSE, MANDATE_WAIT
from sluice.core.registry.agent_keys import UNSIGNED_AGENT
from sluice.core.registry.freezes import find_stop
from sluice.core.state.acknowledgement import NOTHING as NO_FLAGS
from sluice.core.state.acknowledgement import acknowledgement
from sluice.core.state.book import GrantKept
from sluice.core.state.decision import Decision
from sluice.core.state.escalation_records import open_in, record_opened
from sluice.core.state.expiry import make_time_records
from sluice.core.state.nonces import keep_nonce
from sluice.core.state.reservations import count
from sluice.core.state.session_view import NOTHING_REMEMBERED, NOTHING_SEEN, ActionSeen, SessionView
from sluice.detection.call_inspection import inspect_call

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Mapping

    from sluice.core.actions.stage import ActionPlan
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord, InputSignature
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.policy import PointParts
    from sluice.core.registry.registry_entries import Tool
    from sluice.core.state.book import Book, Change
    from sluice.core.state.decision import Shared
    from sluice.core.state.escalation import Escalation
    from sluice.core.state.grant import StandingGrant
    from sluice.core.state.limit_usage import LimitSeen
    from sluice.core.state.remembered import GateMemory, RecentAction
    from sluice.core.state.reservations import ActionUsage
    from sluice.core.state.session import SessionState
    from sluice.core.state.usual import Lesson
    from sluice.detection.call_inspection import Inspection
    from sluice_topics.records import ProposedAction

ACTION_ID_CONFLICT, SESSION_CAPACITY = "action_id_conflict", "session_capacity"
SIGNATURE_GATE = "signature"
_MILLISECOND_NS = 1_000_000


class RuledAction(NamedTuple):
    """What came of an action. `records`: its verdict, and the escalation that it opens (`waits`). `counted`:
    the action as the session counts it, None for one that was counted before; `has_capacity`: it can be
    remembered. `gates`: by their names what gates remember from here on. `apart`: its session does not
    change. `grant`: the standing grant that it used, with what is left of it. `lesson`: what its outcome will
    teach (destinations.py). `context`: what it was judged on."""

    records: tuple[OutRecord, ...]
    ruling: Ruling
    counted: ActionUsage | None
    has_capacity: bool = False
    gates: Mapping[str, GateMemory | None] = NOTHING_REMEMBERED
    waits: Escalation | None = None
    apart: bool = False
    grant: StandingGrant | None = None
    lesson: Lesson | None = None
    context: ActionContext | None = None


class Lookups(NamedTuple):
    """What an action asks its partition at the moment at which it is decided, for sessions share it: the
    standing grant of its scope, and what is counted for the limits of its plan."""

    find_grant: Callable[[], StandingGrant | None]
    see_limits: Callable[[], Mapping[str, LimitSeen]]


def select_seen(observed: ActionSeen, gates: Container[str]) -> ActionSeen:
    """What was seen, with only what these gates remember."""
    remembered = {name: value for name, value in observed.remembered.items() if name in gates}
    return observed._replace(remembered=remembered)


def assess(
    plan: ActionPlan, action: ProposedAction, observed: ActionSeen, arrived_at_ms: int
) -> ActionContext:
    """The context of an action, on what was seen of its session: of what gates remember, only what the
    bundle's own do."""
    if observed.remembered:
        observed = select_seen(observed, plan.bundle.stages)
    inspection, most = None, plan.rows_upper_bound
    rows = count_rows(plan.tool, action.rows_affected, most)
    registry = plan.registry
    if rows == 0:
        rows, inspection = _rows(plan, action)
    return ActionContext(
        plan,
        action,
        observed,
        arrived_at_ms,
        registry.find_freezes(plan.tenant, action.agent_id, action.session_id) if registry.freezes else (),
        rows,
        observed.rows + rows,
        observed.actions + 1,
        bool(observed.read),
        plan.tightened or rows > most,
        acknowledgement(observed.flags, action.acknowledged_flags) if observed.flags else NO_FLAGS,
        inspection,
    )


def count_rows(tool: Tool | None, claimed: int | None, upper_bound: int) -> int:
    """The rows of an action: at least the bound of its type, unless the tool's entry trusts the estimate."""
    if claimed is not None and tool is not None and tool.trusts_row_claims:
        return claimed
    return max(upper_bound, claimed or 0)


def _rows(plan: ActionPlan, action: ProposedAction) -> tuple[int, Inspection]:
    """What an action counts for that is trusted to change nothing, and what was read to tell: all the same
    unknown for a call that reads as a change."""
    inspection = inspect_call(plan.bundle.library, action.tool_name, plan.types, action.parameters)
    return plan.rows_upper_bound if inspection.changes else 0, inspection


def evaluate(
    parts: PointParts, input_record: InputRecord, action: ProposedAction, state: SessionState, shared: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on an action: read its session, judge it, and keep what came of it."""
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    plan = parts.plan(action)
    named = action.mandate_digest
    observed = view.see_action(plan.owner, action.action_id, named)
    if named is not None:
        if (
            observed.mandate is None
            and observed.previous is None
            and plan.agent is not None
            and _may_count(input_record)
        ):
            yield MANDATE_WAIT
        observed = check_standing(parts.policy.registry, action.agent_id, observed, view)
    if plan.looks_up_values:
        observed = observed._replace(values=look_up_values(view, plan, action, shared.uses))

    def find() -> StandingGrant | None:
        grants = shared.book.grants or parts.policy.registry.agent_grants
        return find_grant(parts, shared.book, plan, action, input_record) if grants else None

    def look() -> Mapping[str, LimitSeen]:
        return see_limits(parts, shared.book, plan, counted, input_record)

    counted = fingerprint_counted(parts, plan, action, observed.values) if plan.limits else {}
    if plan.limits:
        observed = observed._replace(limits=look())
    judged = yield from judge(parts, input_record, action, plan, observed, Lookups(find, look))
    if judged.apart:
        return Decision((), [*judged.records])
    if input_record.signature is not None:
        keep_nonce(view, plan.owner, input_record)
    return _keep(parts, view, observed, judged, shared.book)


def judge_again(
    parts: PointParts, input_record: InputRecord, action: ProposedAction, verdict: Mapping[str, Any]
) -> Generator[Request, Answer, OutRecord]:
    """The verdict on an action of which `verdict` says what was seen of its session, and how long it lay."""
    waited = replace(input_record, waited_ms=verdict.get("waited_ms") or 0)
    grant = read_recorded_grant(verdict, action.tool_name)
    plan: ActionPlan = parts.plan(action)
    observed = read_recorded_seen(verdict)
    lookups = Lookups(lambda: grant, lambda: observed.limits or {})
    judged = yield from judge(parts, waited, action, plan, observed, lookups)
    return judged.records[0]


def judge(
    parts: PointParts,
    input_record: InputRecord,
    action: ProposedAction,
    plan: ActionPlan,
    observed: ActionSeen,
    lookups: Lookups,
) -> Generator[Request, Answer, RuledAction]:
    """Judge an action by the stages of its bundle, on what was seen of its session. Another session may use
    the last of its grant or of a limit while a gate waits: then the action is judged anew. An id seen within
    its window is answered from memory: no stage runs."""
    find = lookups.find_grant
    began = parts.stopwatch()
    refusal = (
        None
        if input_record.signature is None
        else _find_refusal(input_record.signature, input_record, observed.previous)
    )
    if refusal is not None:
        return _deny_unsigned(input_record, action, plan, refusal)
    context = assess(plan, action, observed, input_record.timestamp_ms)
    if action.deadline_ms is not None:
        _set_deadline(context, input_record, began)
    if (previous := observed.previous) is not None:
        if not observed.has_capacity:
            context.observed = context.observed._replace(has_capacity=True)
        if previous.digest == extract_hex(input_record.digest):
            return _repeat(input_record, context, previous)
        return _decide(input_record, context, Evaluation("BLOCK", ACTION_ID_CONFLICT))
    if not observed.has_capacity:
        return _decide(input_record, context, Evaluation("BLOCK", SESSION_CAPACITY))
    evaluation, used = yield from _evaluate(parts, context, find)
    while (used is not None or plan.limits) and _is_overtaken(context, evaluation, used, lookups):
        observed = observed._replace(limits=lookups.see_limits() if plan.limits else None)
        context = assess(plan, action, observed, input_record.timestamp_ms)
        _set_deadline(context, input_record, began)
        evaluation, used = yield from _evaluate(parts, context, find)
    if action.deadline_ms is not None:
        input_record = _note_wait(parts, input_record, began)
    if action.deadline_ms is not None or not plan.accepted:
        object_to(context, evaluation, input_record.waited_ms)
    return _decide(input_record, context, evaluation, used and find())


def _is_overtaken(
    context: ActionContext, evaluation: Evaluation, used: StandingGrant | None, lookups: Lookups
) -> bool:
    """Whether other sessions have used the last of the grant meanwhile, or counted for the limits."""
    if used is not None and not used.is_left_in(lookups.find_grant()):
        return True
    asked = bool(evaluation.model_outputs)
    return bool(context.plan.limits) and must_judge_again(context, lookups.see_limits(), asked=asked)


def _set_deadline(context: ActionContext, input_record: InputRecord, began_ns: int) -> None:
    """Let the context say when the caller's time is over, if the caller set one."""
    if (deadline_ms := context.action.deadline_ms) is not None:
        context.due_ns = began_ns + (deadline_ms - input_record.waited_ms) * _MILLISECOND_NS


def _evaluate(
    parts: PointParts, context: ActionContext, find: Callable[[], StandingGrant | None]
) -> Generator[Request, Answer, tuple[Evaluation, StandingGrant | None]]:
    """What the stages make of an action, and the standing grant by which it needs no person. `find`: the one
    of its scope, which sessions may share."""
    observed, evaluation = context.observed, None if context.plan.accepted else evaluate_unregistered(context)
    if evaluation is None:
        context.pauses = parts.pauses
        gates = run if context.action.governance_context is None else run_proven
        evaluation = yield from gates(context, parts.stopwatch)
    if observed.dispute is not None and evaluation.outcome == "ALLOW":
        evaluation.settle("ESCALATE", evaluation.note_dispute(observed.dispute))
        evaluation.obligations.clear()
    if parts.pauses:
        yield LAST_PAUSE
    grant = find()
    if grant is None or observed.dispute is not None or (context.plan.limits and is_spent(context)):
        return evaluation, None
    return (yield from run_granted(grant, context, evaluation, parts.stopwatch))


def _may_count(input_record: InputRecord) -> bool:
    """Whether the input is its agent's, as far as its signature says: nobody else's holds up the session."""
    return input_record.signature is None or input_record.signature.is_new


def _find_refusal(
    signature: InputSignature, input_record: InputRecord, action: RecentAction | None
) -> str | None:
    """Why an action does not count as its agent's. A signed one that comes again is answered from memory as
    long as its id is known, and never judged a second time."""
    if signature.refusal is not None or signature.novelty != "replayed":
        return signature.refusal
    return None if action is not None and action.digest == extract_hex(input_record.digest) else REPLAYED


def _deny_unsigned(
    input_record: InputRecord, action: ProposedAction, plan: ActionPlan, refusal: str
) -> RuledAction:
    """Deny an action that its agent did not sign, in every mode and under shadow too: it is not the agent's.
    Nothing of its session is read, and nothing is counted."""
    context = assess(plan, action, NOTHING_SEEN, input_record.timestamp_ms)
    about = describe_action(input_record, context, None) | {"advisories": ()}
    evaluation, reason = Evaluation(), f"{UNSIGNED_AGENT}: {refusal}"
    evaluation.list_gate(SIGNATURE_GATE, StageResult("block", reason), 0)
    evaluation.settle("BLOCK", reason)
    ruling = find_ruling("BLOCK", None, context.plan.mode)
    verdict = make_verdict_record(input_record, about, evaluation, ruling, action.session_id)
    return RuledAction((verdict,), ruling, None, apart=True)


def _note_wait(parts: PointParts, input_record: InputRecord, began_ns: int) -> InputRecord:
    """With the time that the stages took; a rerun's stopwatch stands still."""
    return replace(
        input_record, waited_ms=input_record.waited_ms + (parts.stopwatch() - began_ns) // _MILLISECOND_NS
    )


def _decide(
    input_record: InputRecord,
    context: ActionContext,
    evaluation: Evaluation,
    grant: StandingGrant | None = None,
) -> RuledAction:
    action, plan, observed = context.action, context.plan, context.observed
    ruling = rule(evaluation.outcome, plan)
    about = describe_action(input_record, context, context.rows if ruling.carried else None)
    if evaluation.entries:
        about["registry_hashes"] = about["registry_hashes"] | evaluation.entries
    waits = make_escalation(input_record, context) if ruling.waits else None
    if waits is not None:
        about["escalationId"] = waits.escalation_id
    form = FIRST
    if grant is not None:
        about["grant"], form = describe_in_verdict(grant), GRANTED
        about["registry_hashes"] = about["registry_hashes"] | entries_of(grant)
    verdict = make_verdict_record(input_record, about, evaluation, ruling, action.session_id, form)
    counted = make_usage(context, verdict.body["input"]["digest"], input_record.offset)
    records: tuple[OutRecord, ...] = (verdict,)
    if waits is not None:
        noted = list_noted_values(evaluation.gates)
        records = (verdict, record_opened(input_record, waits, evaluation.reason or "", noted))
    after = None
    if grant is not None and ruling.carried:
        after = grant.use()
        records = (*records, make_used_record(after, input_record, action.action_id))
    has_capacity, gate_memories = observed.has_capacity and plan.agent is not None, NOTHING_REMEMBERED
    if (
        plan.agent is not None
        and (plan.remembers or observed.remembered)
        and (has_capacity or ruling.carried)
    ):
        decided = Decided(ruling.real, ruling.carried, observed.previous is not None)
        gate_memories = collect_gate_memories(context, decided, has_capacity=has_capacity)
    lesson = None
    if plan.looks_up_values and ruling.carried and ruling.real == "ALLOW":
        lesson = choose_lesson(context)
    return RuledAction(
        records,
        ruling,
        counted,
        has_capacity,
        gate_memories,
        waits,
        grant=after,
        lesson=lesson,
        context=context,
    )


def _repeat(input_record: InputRecord, context: ActionContext, action: RecentAction) -> RuledAction:
    ruling = rule_again(action.mark, context.plan.mode)
    evaluation = Evaluation(ruling.real)
    is_frozen = _object_to_frozen(context, evaluation)
    object_to_lateness(context, evaluation, input_record.waited_ms)
    if is_frozen and context.plan.org.enforcement == "enforce":
        ruling = rule(evaluation.outcome, context.plan)  # also where it was allowed in shadow mode
    elif evaluation.outcome != ruling.real:
        ruling = ruling.stricter(evaluation.outcome, context.plan.mode)
    first = f"{input_record.topic}:{input_record.partition}:{action.offset}"
    about = describe_action(input_record, context, None)
    about["duplicate_of"] = verdict_id(first)
    about["escalationId"] = escalation_id(first) if ruling.waits else None
    if ruling.real == "ALLOW":
        evaluation.obligations += OBLIGATIONS[context.plan.tier]
    verdict = make_verdict_record(input_record, about, evaluation, ruling, context.action.session_id)
    return RuledAction((verdict,), ruling, None)


def _object_to_frozen(context: ActionContext, evaluation: Evaluation) -> bool:
    """Deny a repeat of what was allowed, or waits, before a freeze: who asks again may not start it now.
    Whether there is one."""
    if find_stop(context.freezes) is None:
        return False
    for gate in context.plan.gates:
        if isinstance(gate.stage, Controls):
            result = gate.stage.evaluate(context)
            evaluation.list_gate(gate.name, result, 0)
            evaluation.settle("BLOCK", result.reason)
    return True


def _keep(
    parts: PointParts, view: SessionView, observed: ActionSeen, judged: RuledAction, book: Book
) -> Decision:
    """The session's change and all records: outcomes that came before their action settle it now."""
    records, counted = [*judged.records], judged.counted
    if view.refused or view.restarted:
        records = make_time_records(view) + records
    if counted is not None:
        ruling = judged.ruling
        count(
            view,
            counted,
            ruling.mark,
            carried=ruling.carried,
            is_repeated=observed.previous is not None,
            has_capacity=judged.has_capacity,
        )
        for gate, gate_memory in judged.gates.items():
            view.remember_for_gate(counted.owner, gate, gate_memory)
        if judged.lesson is not None:
            view.keep_lesson(counted.owner, counted.offset, judged.lesson)
        if ruling.carried and judged.context is not None:
            plan, action = judged.context.plan, judged.context.action
            if plan.values_key is not None and plan.tier > "T1":
                # What a person approves is not kept: the person has read it.
                view.remember_written(plan.owner, action.parameters, plan.values_key)
        if view.state.early:
            records += settle_early(parts, view, counted.owner, counted.action_id, counted.offset)
    changes: tuple[Change, ...] = (judged.grant and (GrantKept(judged.grant),)) or ()
    if judged.waits is not None:
        evicted, changes = open_in(book, judged.waits, parts.limits.max_escalations)
        records += evicted
    if judged.context is not None and judged.context.plan.limits:
        changes += _list_limit_changes(parts, view, judged.context, judged, book)
    return Decision(view.changes(), records, changes)


def _list_limit_changes(
    parts: PointParts, view: SessionView, context: ActionContext, judged: RuledAction, book: Book
) -> tuple[Change, ...]:
    """What an action counts for limits, and what outcomes that came before it change of that."""
    counted, waits = judged.counted, judged.waits
    if counted is None:
        return ()
    until_ms = context.now_ms + parts.limits.action_window_ms
    if waits is not None:
        until_ms = max(until_ms, waits.expires_ms)
    charge = make_charge(
        context, counted.offset, until_ms, carried=judged.ruling.carried, waits=waits is not None
    )
    return () if charge is None else (charge, *list_corrections(view, book, charged=True))
