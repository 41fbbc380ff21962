"""Judging an approved action: it goes through every gate again, and the result is the resolved verdict.

The gates see the session as it is when the last approval comes. Where a gate escalates, the approval counts
as the agreement; a BLOCK still blocks. Only now are the action's rows reserved. The action's deadline plays
no part here: its caller has been answered already, with `needs_human`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.assessment import evaluate_unregistered, object_to
from sluice.core.actions.authority import OBLIGATIONS, find_required_role
from sluice.core.actions.delegation import run_proven
from sluice.core.actions.destinations import choose_lesson, look_up_values
from sluice.core.actions.limits import fingerprint_counted, look_at_limits, make_charge, must_judge_again
from sluice.core.actions.plan import collect_gate_memories
from sluice.core.actions.proposal import SESSION_CAPACITY, assess
from sluice.core.actions.stage import Decided
from sluice.core.actions.task_mandates import check_standing
from sluice.core.actions.verdict import (
    Ruling,
    VerdictForm,
    describe_action,
    make_usage,
    make_verdict_record,
    read_recorded_seen,
    rule,
    rule_again,
)
from sluice.core.foundation.canonical import wire_int
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.foundation.input_record import make_resolved_id
from sluice.core.foundation.refusals import NOT_SEALED, SEALED_UNMARKED, Objection
from sluice.core.foundation.requests import ask_for_input, take_input
from sluice.core.foundation.sealed_input import ask_for_keys, find_sealed, open_sealed
from sluice.core.state.escalation import Escalation, Route, Vote, parameters_digest
from sluice.core.state.reservations import count, expect_results
from sluice_topics.json_text import parse, write_json_path
from sluice_topics.record_reading import Unreadable, read, read_document, replace_parameters
from sluice_topics.records import ProposedAction
from sluice_topics.sealing import find_misplaced, find_tokens, find_unsealed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from sluice.core.actions.pipeline import Evaluation
    from sluice.core.actions.stage import ActionContext, ActionPlan
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.foundation.sealed_input import OpenedInput
    from sluice.core.policy.policy import PointParts
    from sluice.core.state.decision import Shared
    from sluice.core.state.limit_usage import LimitsCharged
    from sluice.core.state.remembered import GateMemory
    from sluice.core.state.reservations import ActionUsage
    from sluice.core.state.session_view import ActionSeen, SessionView
    from sluice.core.state.usual import Lesson
    from sluice_topics.sealing import InputKind

SCHEMA = "sluice/resolved_verdict/v1"
FORM = VerdictForm("ResolvedVerdict", ("resolves", "action", "escalation", "approvals"))
NARROWED = VerdictForm(FORM.kind, (*FORM.hashed, "narrowed"))
"""The forms of a resolved verdict; NARROWED is that of an action whose parameters an approver narrowed."""


ESCALATED_KIND: InputKind = "action"
"""The kind of input that waits, as its values are sealed."""


class SeenAtApproval(NamedTuple):
    """What an approval reads from the session. `counted`: the totals contain the action already, because its
    agent carried it out before the approval. `claimed`: of one that counts on the word of unsigned outcomes
    the rows that the totals contain, which may be less than it does."""

    observed: ActionSeen
    counted: bool
    claimed: int | None = None

    def find_missing(self, rows: int) -> int:
        """Of the rows of an action that counts already, those that the totals do not contain."""
        return 0 if self.claimed is None else max(0, rows - self.claimed)


class ResolvedAction(NamedTuple):
    """The decision on an approved action. `demanding` is the escalation with what the policy of now demands.
    `last` is the approval that completed the quorum; `sighting`, `gates` and `lesson` are as in RuledAction;
    `charge`: what it counts for limits, None: nothing, or what it counted before."""

    verdict: OutRecord
    ruling: Ruling
    demanding: Escalation
    sighting: ActionUsage
    resolving: SeenAtApproval
    gates: Mapping[str, GateMemory | None]
    last: Vote
    charge: LimitsCharged | None
    lesson: Lesson | None = None


def read_resolving(
    parts: PointParts,
    view: SessionView,
    plan: ActionPlan,
    action: ProposedAction,
    escalation: Escalation,
    shared: Shared,
) -> SeenAtApproval:
    """Read the session. It remembers the action itself until the action leaves the window."""
    owner = plan.owner
    previous = view.action(owner, action.action_id)
    own = previous is not None and previous.offset == escalation.offset
    observed = view.see_action(owner, action.action_id, action.mandate_digest)
    if action.mandate_digest is not None:
        observed = check_standing(plan.registry, action.agent_id, observed, view)
    if plan.looks_up_values:
        observed = observed._replace(values=look_up_values(view, plan, action, shared.uses))
    if plan.limits:
        coordinates = escalation.partition, view.now, escalation.offset
        counted = fingerprint_counted(parts, plan, action, observed.values)
        observed = observed._replace(limits=look_at_limits(parts, shared.book, plan, counted, coordinates))
    others_counted = (
        previous is not None and previous.shared and not rule_again(previous.mark, plan.mode).carried
    )
    if previous is None or not own or previous.carried == 0 or others_counted:
        return SeenAtApproval(observed, counted=False)
    claimed = previous.counted if previous.peak > 0 and not previous.signed else None
    return SeenAtApproval(observed, counted=True, claimed=claimed)


def read_recorded_resolving(recorded: Mapping[str, Any]) -> SeenAtApproval:
    """Read back what a resolved verdict says was seen."""
    escalation = recorded["escalation"]
    claimed = escalation.get("claimed")
    observed = read_recorded_seen(recorded)
    return SeenAtApproval(observed, escalation["counted"], None if claimed is None else int(claimed))


def read_recorded_escalation(recorded: Mapping[str, Any]) -> Escalation:
    """The escalation as it was before the approval that a resolved verdict answers."""
    action, recorded_escalation = recorded["action"], recorded["escalation"]
    return Escalation(
        recorded["escalationId"],
        recorded["resolves"],
        recorded["action_id"],
        recorded["agent_id"],
        recorded["session_id"],
        recorded["tenant_id"],
        recorded_escalation["tool"],
        action["digest"],
        recorded_escalation["tier"],
        recorded_escalation["required_role"],
        recorded_escalation["quorum"],
        action["topic"],
        action["partition"],
        action["offset"],
        read_milliseconds(recorded_escalation["opened_at"]),
        read_milliseconds(recorded_escalation["expires_at"]),
        tuple(Vote.of(vote) for vote in recorded_escalation["votes"]),
        route=None if recorded_escalation.get("route") is None else Route.of(recorded_escalation["route"]),
        own_key=recorded_escalation.get("own_key") or False,
        parameters=recorded_escalation["parameters_digest"],
        votes_for=recorded_escalation.get("votes_for") or "",
    )


class EscalatedAction(NamedTuple):
    """An action that waits, with the parameters of an approval, and its sealed values, opened; None where it
    has none."""

    action: ProposedAction
    opened: OpenedInput | None


def read_escalated_action(
    parts: PointParts, escalation: Escalation, narrowed: dict[str, Any] | None
) -> Generator[Request, Answer, EscalatedAction | None]:
    """The action that waits, from the bytes at its coordinates; None if they have changed, or cannot be
    opened. `narrowed`: parameters that an approval puts in the place of its own; what is sealed in them is
    sealed as if the action had had them."""
    answer = yield ask_for_input(escalation.topic, escalation.partition, escalation.offset)
    value = take_input(answer, escalation.digest)
    document = None if value is None else parse(value)
    if value is None or not isinstance(document, dict):
        return None
    if narrowed is not None:
        document = replace_parameters(document, narrowed)
    opened: OpenedInput | None = None
    if (sealed := find_sealed(document)) is not None:
        erased = parts.policy.registry.erasures
        keys = yield from ask_for_keys(sealed.key_ids, escalation.tenant, erased)
        unlocked = open_sealed(sealed, ESCALATED_KIND, keys)
        if isinstance(unlocked, Unreadable):
            return None
        opened = unlocked
    ids = {
        "action_id": escalation.subject_id,
        "agent_id": escalation.agent_id,
        "session_id": escalation.session_id,
    }
    if opened is None:
        action = read(ProposedAction, value, ids)
    else:
        action = read_document(ProposedAction, opened.plain, ids)
    if isinstance(action, Unreadable):
        return None
    if narrowed is not None and opened is None:
        action = action.model_copy(update={"parameters": narrowed})
    return EscalatedAction(action, opened)


def object_to_plain(
    parts: PointParts, escalation: Escalation, narrowed: dict[str, Any]
) -> Generator[Request, Answer, Objection | None]:
    """Why an approval does not count that has a value plain which the bundle marks as personal, or sealed
    which it does not mark; None: it has none."""
    tokens = find_tokens(narrowed)
    if not parts.demands_sealed or not (tokens or parts.policy.marks_personal):
        return None
    answer = yield ask_for_input(escalation.topic, escalation.partition, escalation.offset)
    value = take_input(answer, escalation.digest)
    document = None if value is None else parse(value)
    if not isinstance(document, dict):
        return None
    marked = parts.policy.list_personal(escalation.agent_id, document.get("policy_bundle_id"))
    whole = replace_parameters(document, narrowed)
    steps = find_unsealed(whole, ESCALATED_KIND, marked)
    if steps is not None:
        message = f"{write_json_path(steps)} is marked as personal: seal it before you sign"
        return Objection(NOT_SEALED, message)
    steps = find_misplaced(whole, ESCALATED_KIND, marked, find_tokens(whole)) if tokens else None
    if steps is None:
        return None
    return Objection(SEALED_UNMARKED, f"{write_json_path(steps)} is sealed, and nothing marks it as personal")


class Approval(NamedTuple):
    """A complete approval: its escalation, all votes that were counted, the parameters by which the last
    approver replaced those of the action (None: they stay), and until when its values are known by the
    approver's answer (ms; 0: the answer does not say so)."""

    escalation: Escalation
    votes: tuple[Vote, ...]
    narrowed: dict[str, Any] | None
    known_until_ms: int


def resolve(
    parts: PointParts,
    input_record: InputRecord,
    action: ProposedAction,
    approval: Approval,
    read: Callable[[ActionPlan, ProposedAction], SeenAtApproval],
) -> Generator[Request, Answer, ResolvedAction]:
    """Judge an approved action, which has the parameters of the approval. `input_record` is the input record
    of the last approver's review."""
    plan: ActionPlan = parts.plan(action)
    resolving, context, evaluation = yield from _judge_approved(parts, input_record, action, plan, read)
    ruling = rule(evaluation.outcome, plan)
    adds = ruling.carried and not resolving.counted
    missing = resolving.find_missing(context.rows) if ruling.carried else 0
    about = describe_action(replace(input_record, waited_ms=0), context, context.rows if adds else None)
    about.pop("waited_ms", None)
    about["registry_hashes"] = _list_entries(about["registry_hashes"], evaluation, approval.votes)
    about |= _describe_resolution(input_record, approval, resolving)
    if missing:
        _describe_missing(about, resolving, missing)
    form = FORM if approval.narrowed is None else NARROWED
    verdict = make_verdict_record(input_record, about, evaluation, ruling, action.session_id, form)
    escalation, has_capacity = approval.escalation, resolving.observed.has_capacity
    gate_memories: Mapping[str, GateMemory | None] = {}
    if has_capacity or ruling.carried:
        decided = Decided(ruling.real, ruling.carried, is_repeated=True)
        gate_memories = collect_gate_memories(context, decided, has_capacity=has_capacity)
    lesson = charge = None
    if plan.looks_up_values and ruling.carried and ruling.real == "ALLOW":
        lesson = choose_lesson(context, approval.known_until_ms, escalation.opened_ms)
    if plan.limits and (adds or missing):
        until_ms = context.now_ms + parts.limits.action_window_ms
        charge = make_charge(context, escalation.offset, until_ms, carried=True, waits=False)
    return ResolvedAction(
        verdict,
        ruling,
        _raise_demands(escalation, plan),
        make_usage(context, escalation.digest, escalation.offset),
        resolving,
        gate_memories,
        approval.votes[-1],
        charge,
        lesson,
    )


def _judge_approved(
    parts: PointParts,
    input_record: InputRecord,
    action: ProposedAction,
    plan: ActionPlan,
    read: Callable[[ActionPlan, ProposedAction], SeenAtApproval],
) -> Generator[Request, Answer, tuple[SeenAtApproval, ActionContext, Evaluation]]:
    """What was seen, and what the gates make of it: again where a limit was used meanwhile."""
    resolving = read(plan, action)
    context, evaluation = yield from _run_approved(parts, input_record, action, plan, resolving.observed)
    while plan.limits and must_judge_again(context, read(plan, action).observed.limits or {}, asked=True):
        resolving = read(plan, action)
        context, evaluation = yield from _run_approved(parts, input_record, action, plan, resolving.observed)
    observed = resolving.observed
    if observed.dispute is not None:
        evaluation.note_dispute(observed.dispute)
    if not plan.accepted:
        object_to(context, evaluation, 0)
    if evaluation.outcome != "BLOCK" and not observed.has_capacity:
        evaluation.settle("BLOCK", SESSION_CAPACITY)
    if evaluation.outcome == "ALLOW":
        evaluation.obligations += OBLIGATIONS[plan.tier]
    return resolving, context, evaluation


def _list_entries(named: Mapping[str, str], evaluation: Evaluation, votes: Sequence[Vote]) -> dict[str, str]:
    """The hashes of all registry entries used: `named` by the plan, by gates, and by who approved."""
    return {
        **named,
        **evaluation.entries,
        **{vote.entry: vote.entry_hash for vote in votes},
        **{vote.delegate.entry: vote.delegate.entry_hash for vote in votes if vote.delegate is not None},
    }


def _raise_demands(escalation: Escalation, plan: ActionPlan) -> Escalation:
    """The escalation with what the policy of now demands of its approvers."""
    terms, tier = plan.bundle.approvals, plan.tier
    return escalation.raise_to(
        tier, find_required_role(tier), terms.count_needed(tier), own_key=terms.demands_own_key(tier)
    )


def _run_approved(
    parts: PointParts,
    input_record: InputRecord,
    action: ProposedAction,
    plan: ActionPlan,
    observed: ActionSeen,
) -> Generator[Request, Answer, tuple[ActionContext, Evaluation]]:
    """What the gates make of an action to which a person has agreed."""
    context = assess(plan, action, observed, input_record.timestamp_ms)
    context.approved = True
    evaluation = evaluate_unregistered(context)
    if evaluation is None:
        evaluation = yield from run_proven(context, parts.stopwatch)
    return context, evaluation


def count_resolved(view: SessionView, escalation: Escalation, resolved: ResolvedAction) -> None:
    """Reserve the rows of an approved action, and answer later repeats of it with the new verdict."""
    sighting, ruling = resolved.sighting, resolved.ruling
    owner, action_id = sighting.owner, sighting.action_id
    action = view.action(owner, action_id)
    if action is None or action.offset != escalation.offset:
        if not resolved.resolving.counted:
            has_capacity = resolved.resolving.observed.has_capacity
            count(
                view,
                sighting,
                ruling.mark,
                carried=ruling.carried,
                is_repeated=action is not None,
                has_capacity=has_capacity,
            )
        elif ruling.carried:
            expect_results(view, sighting)
    else:
        adds = ruling.carried and not resolved.resolving.counted
        if adds:
            view.count(owner.tenant, sighting.rows, 1)
        if ruling.carried:
            expect_results(view, sighting)
        rows, times = (sighting.rows, 1) if adds else (0, 0)
        missing = resolved.resolving.find_missing(sighting.rows)
        if missing and ruling.carried:
            rows = missing
            view.count(owner.tenant, missing, 0)
        most = max(action.most, sighting.most)
        after = action._replace(
            mark=ruling.mark, counted=action.counted + rows, carried=action.carried + times, most=most
        )
        view.remember(owner, action_id, after)
    for gate, gate_memory in resolved.gates.items():
        view.remember_for_gate(owner, gate, gate_memory)
    if resolved.lesson is not None:
        view.keep_lesson(owner, escalation.offset, resolved.lesson)


def _describe_missing(about: dict[str, Any], resolving: SeenAtApproval, missing: int) -> None:
    """Let a resolved verdict say that the rows which an unsigned outcome left out are reserved."""
    before, rows = about["session"]["before"], resolving.observed.rows + missing
    about["session"]["after"] = {**before, "aggregateRowsAffected": wire_int(rows)}
    about["rows_reserved"] = wire_int(missing)
    about["escalation"]["claimed"] = wire_int(resolving.claimed or 0)


def _describe_resolution(
    input_record: InputRecord, approval: Approval, resolving: SeenAtApproval
) -> dict[str, Any]:
    """The fields of a resolved verdict that a verdict does not have."""
    escalation, votes, narrowed, _ = approval
    resolution: dict[str, Any] = {
        "schema": SCHEMA,
        "verdict_id": make_resolved_id(input_record.decision_id),
        "escalationId": escalation.escalation_id,
        "resolves": escalation.verdict_id,
        "action": {
            "topic": escalation.topic,
            "partition": escalation.partition,
            "offset": escalation.offset,
            "timestamp": escalation.opened_ms,
            "digest": escalation.digest,
        },
        "escalation": {
            "tool": escalation.tool,
            "tier": escalation.tier,
            "required_role": escalation.role,
            "quorum": escalation.quorum,
            "opened_at": rfc3339(escalation.opened_ms),
            "expires_at": rfc3339(escalation.expires_ms),
            "votes": [vote.make_fields() for vote in escalation.votes],
            "counted": resolving.counted,
            "parameters_digest": escalation.parameters,
        },
        "approvals": [vote.make_fields() for vote in votes],
    }
    if escalation.route is not None:
        resolution["escalation"]["route"] = escalation.route.make_fields()
    if escalation.own_key:
        resolution["escalation"]["own_key"] = True
    if escalation.votes:
        resolution["escalation"]["votes_for"] = escalation.votes_for
    if narrowed is not None:
        resolution["narrowed"] = parameters_digest(narrowed)
    return resolution
