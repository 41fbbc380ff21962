"""Answers of people to escalated actions (seed 001, Gate 4; product.md, "Approvals").

An answer is a signed review. It is bound to the digest of exactly one action. It counts only if it comes from
an approver with the role who is registered for the tenant and the tool, and who is neither the agent nor its
owner; each approver counts once. An escalation may need several approvals. They count together only for the
same parameters: an approval for others starts the count again. One denial ends it; so does the end of its
time, and its removal where too many are open.

An approval does not skip a gate: the approved action goes through every gate again, on the session as it is
then (sluice/core/actions/resolution.py). If the policy demands more for it by then, a higher role, more
approvals or the approvers' own keys, those approvals count that fulfil this, and the escalation waits on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.approver_rights import (
    APPROVE,
    DENY,
    hash_approved_parameters,
    object_to_last,
    object_to_review,
    select_fulfilling,
    unknown,
)
from sluice.core.actions.resolution import (
    Approval,
    ResolvedAction,
    count_resolved,
    object_to_plain,
    read_escalated_action,
    read_recorded_escalation,
    read_recorded_resolving,
    read_resolving,
    resolve,
)
from sluice.core.actions.standing_grants import grant_of, make_given_record
from sluice.core.foundation.clock import DAY_MS, rfc3339
from sluice.core.foundation.refusals import Objection, refuse_review
from sluice.core.registry.review_signing import find_answer_delegate, make_signer_fields
from sluice.core.state.book import EscalationKept, GrantKept
from sluice.core.state.decision import Decision
from sluice.core.state.escalation import Escalation, Vote
from sluice.core.state.escalation_records import (
    EXPIRED,
    End,
    expire,
    make_counted_record,
    make_resolved_record,
    take_steps,
)
from sluice.core.state.expiry import make_time_records
from sluice.core.state.session_view import SessionView

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from sluice.core.actions.resolution import SeenAtApproval
    from sluice.core.actions.stage import ActionPlan
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.policy import PointParts
    from sluice.core.registry.registry import Registry
    from sluice.core.state.book import Change
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState
    from sluice_topics.records import ProposedAction, ReviewDecision


def evaluate(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, state: SessionState, shared: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on an answer to an escalated action."""
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    escalation = shared.book.escalation(review.subject_id)
    against = object_to_review(parts.policy.registry, input_record, review, escalation)
    if against is not None or escalation is None:
        return refuse(input_record, review, view, against or unknown(review))
    _, on_its_way = take_steps(escalation, input_record.timestamp_ms)
    waits = _ApprovalAnswer(parts, input_record, review, view, on_its_way, shared)
    plain = None
    if review.parameters is not None:
        plain = yield from object_to_plain(parts, escalation, review.parameters)
    if escalation.expires_ms <= input_record.timestamp_ms:
        decision = _too_late(waits)
    elif plain is not None:
        return refuse(input_record, review, view, plain)
    elif review.decision == DENY:
        decision = _deny(waits)
    elif len(waits.votes) < escalation.quorum:
        decision = _count_vote(waits, on_its_way)
    elif escalation.is_of_items:
        decision = _release_items(waits)
    else:
        decision = yield from _approve(waits)
    stored = shared.book.escalation(review.subject_id)
    if stored is None or stored._replace(steps_done=escalation.steps_done) != escalation:
        view = SessionView(state, parts.limits, input_record.timestamp_ms)
        return refuse(input_record, review, view, unknown(review))
    if decision.book:
        decision.records[:0] = take_steps(stored, input_record.timestamp_ms, input_record)[0]
    return decision


class _ApprovalAnswer(NamedTuple):
    """A valid answer, the escalation that it answers, and what sessions share."""

    parts: PointParts
    input_record: InputRecord
    review: ReviewDecision
    view: SessionView
    escalation: Escalation
    shared: Shared

    @property
    def votes(self) -> tuple[Vote, ...]:
        """The approvals that count with this one, and this one as the last."""
        return _votes(self.parts.policy.registry, self.input_record, self.review, self.escalation)


def judge_again(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, recorded: Mapping[str, Any]
) -> Generator[Request, Answer, OutRecord]:
    """Make the resolved verdict again from the escalation and the session as the recorded one describes them.

    Returns the refusal of the answer instead where the answer should not have counted.
    """
    escalation = read_recorded_escalation(recorded)
    against = object_to_review(parts.policy.registry, input_record, review, escalation)
    if against is None and review.decision != APPROVE:
        against = Objection("wrong_decision", "a denial has no resolved verdict")
    if against is None and escalation.expires_ms <= input_record.timestamp_ms:
        against = Objection("expired", EXPIRED)
    if against is None:
        votes = _votes(parts.policy.registry, input_record, review, escalation)
        if len(votes) < escalation.quorum:
            against = _INCOMPLETE
    if against is None:
        judged = yield from _judge_again(
            parts, input_record, review, escalation, lambda *_: read_recorded_resolving(recorded)
        )
        if isinstance(judged, ResolvedAction):
            return judged.verdict
        against = judged if isinstance(judged, Objection) else _INCOMPLETE
    return refuse_review(input_record, review, against)


_INCOMPLETE = Objection("quorum", "not the last approval that the escalation needs")


def _judge_again(
    parts: PointParts,
    input_record: InputRecord,
    review: ReviewDecision,
    escalation: Escalation,
    read_seen: Callable[[ActionPlan, ProposedAction], SeenAtApproval],
) -> Generator[Request, Answer, ResolvedAction | Escalation | Objection]:
    """Read the action again and judge it again, with all approvals that were counted.

    Returns the escalation with what the policy of now demands where the approvals do not complete that.
    """
    escalated = yield from read_escalated_action(parts, escalation, review.parameters)
    if escalated is None:
        return Objection("content_unavailable", "the escalated action could not be read again")
    registry = parts.policy.registry
    votes = _votes(registry, input_record, review, escalation)
    until_ms = input_record.timestamp_ms + review.remember_days * DAY_MS if review.remember_days else 0
    approval = Approval(escalation, votes, review.parameters, until_ms)
    judged = input_record if escalated.opened is None else replace(input_record, opened=escalated.opened)
    resolved = yield from resolve(parts, judged, escalated.action, approval, read_seen)
    demanding = resolved.demanding
    against = object_to_last(registry, input_record, review, demanding, votes[-1])
    if against is not None:
        return against
    return (
        resolved
        if len(select_fulfilling(registry, input_record, demanding, votes)) >= demanding.quorum
        else demanding
    )


def _votes(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, escalation: Escalation
) -> tuple[Vote, ...]:
    """The approvals for the same parameters so far, and this one."""
    approver = registry.approvers[review.approver_id]
    delegate = find_answer_delegate(registry, review)
    last = Vote(approver.id, approver.key, approver.hash, input_record.decision_id, delegate)
    return (*escalation.votes_with(hash_approved_parameters(review, escalation)), last)


def refuse(input_record: InputRecord, review: ReviewDecision, view: SessionView, why: Objection) -> Decision:
    """The decision on an answer that is refused."""
    return _record_end(view, [refuse_review(input_record, review, why)])


def _record_end(view: SessionView, records: list[OutRecord], *changes: EscalationKept) -> Decision:
    records = [*make_time_records(view), *records]
    return Decision(() if view.state.gone else view.changes(), records, changes)


def _too_late(waits: _ApprovalAnswer) -> Decision:
    """The answer came too late: it ends the escalation, even if no timer has done so yet."""
    escalation, now = waits.escalation, waits.input_record.timestamp_ms
    record, change = expire(escalation, now, waits.input_record)
    why = Objection("expired", f"the escalation expired at {rfc3339(escalation.expires_ms)}")
    return _record_end(waits.view, [record, refuse_review(waits.input_record, waits.review, why)], change)


def _deny(waits: _ApprovalAnswer) -> Decision:
    parts, input_record, review, view, escalation, _ = waits
    end = End(DENY, "BLOCK", f"approval_denied: {review.approver_id}", None)
    change = EscalationKept(escalation.advance("denial", input_record.timestamp_ms, outcome="BLOCK"))
    return _record_end(
        view,
        [
            make_resolved_record(
                escalation, input_record, make_signer_fields(parts.policy.registry, review), end
            )
        ],
        change,
    )


def _count_vote(waits: _ApprovalAnswer, demanding: Escalation) -> Decision:
    """It waits on, for what `demanding` asks for: the approvals that fulfil this are counted."""
    parts, input_record, review, view, escalation, _ = waits
    registry = parts.policy.registry
    votes = select_fulfilling(registry, input_record, demanding, waits.votes)
    votes_for = hash_approved_parameters(review, escalation)
    after = demanding.advance("approval", input_record.timestamp_ms, votes=votes, votes_for=votes_for)
    record = make_counted_record(escalation, after, input_record, make_signer_fields(registry, review))
    return _record_end(view, [record], EscalationKept(after))


def _release_items(waits: _ApprovalAnswer) -> Decision:
    """The last approval of a retrieval's items: the agent may ask for exactly them once more."""
    parts, input_record, review, view, escalation, _ = waits
    registry = parts.policy.registry
    terms = parts.policy.find_principal(escalation.agent_id).bundle.approvals
    tier = escalation.tier
    demanding = escalation.raise_to(
        tier, escalation.role, terms.count_needed(tier), own_key=terms.demands_own_key(tier)
    )
    against = object_to_last(registry, input_record, review, demanding, waits.votes[-1])
    if against is not None:
        return refuse(input_record, review, view, against)
    if len(select_fulfilling(registry, input_record, demanding, waits.votes)) < demanding.quorum:
        return _count_vote(waits, demanding)
    after = escalation.advance(
        "last_approval", input_record.timestamp_ms, votes=waits.votes, justification=review.justification
    )
    end = End(APPROVE, "ALLOW", None, None)
    record = make_resolved_record(escalation, input_record, make_signer_fields(registry, review), end)
    return _record_end(view, [record], EscalationKept(after))


def _approve(waits: _ApprovalAnswer) -> Generator[Request, Answer, Decision]:
    parts, input_record, review, view, escalation, _ = waits

    def read_at_approval(plan: ActionPlan, action: ProposedAction) -> SeenAtApproval:
        return read_resolving(parts, view, plan, action, escalation, waits.shared)

    resolved = yield from _judge_again(parts, input_record, review, escalation, read_at_approval)
    if isinstance(resolved, Objection):
        return refuse(input_record, review, view, resolved)
    if isinstance(resolved, Escalation):
        return _count_vote(waits, resolved)
    body = resolved.verdict.body
    until_ms = 0 if resolved.lesson is None else resolved.lesson.until_ms
    end = End(APPROVE, body["outcome"], body["blockReason"], body["verdict_id"], until_ms)
    record = make_resolved_record(
        escalation, input_record, make_signer_fields(parts.policy.registry, review), end
    )
    records = [*make_time_records(view), resolved.verdict, record]
    count_resolved(view, escalation, resolved)
    after = escalation.advance(
        "last_approval",
        input_record.timestamp_ms,
        outcome=body["outcome"],
        votes=waits.votes,
    )
    changes: list[Change] = [EscalationKept(after)]
    if resolved.charge is not None:
        changes.append(resolved.charge)
    approver = parts.policy.registry.approvers[review.approver_id]
    grant = grant_of(input_record, review, escalation, approver) if end.outcome == "ALLOW" else None
    if grant is not None:
        records.append(make_given_record(grant, input_record, escalation.escalation_id, review.justification))
        changes.append(GrantKept(grant))
    return Decision(view.changes(), records, tuple(changes))
