"""The records of an escalation: it opens, takes the steps of its route, and ends by an answer or by time.

When it takes a step of its route follows from its opening and its route alone. A timer writes the step; an
answer that counts and comes before the timer first writes the steps that were due before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.state.book import EscalationKept
from sluice.core.state.decision import Decision
from sluice_topics.catalog import ESCALATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.state.book import Book
    from sluice.core.state.escalation import Escalation, Route, RouteStep

EXPIRED = "nobody decided in time"
OTHER_PARAMETERS = "other_parameters"
NOT_ENTITLED = "not_entitled"
"""Why votes count no more: the newest one is for other parameters; or who gave them may not give them now."""
EVICTED = "too many escalations were open, and this was the oldest of the agent that had the most"
_SCHEMAS = {
    "EscalationOpened": "sluice/escalation_opened/v1",
    "EscalationReminded": "sluice/escalation_reminded/v1",
    "EscalationRerouted": "sluice/escalation_rerouted/v1",
    "ApprovalCounted": "sluice/approval_counted/v1",
    "EscalationResolved": "sluice/escalation_resolved/v1",
    "EscalationExpired": "sluice/escalation_expired/v1",
    "RetrievalApprovalCounted": "sluice/retrieval_approval_counted/v1",
    "RetrievalEscalationResolved": "sluice/retrieval_escalation_resolved/v1",
    "RetrievalEscalationExpired": "sluice/retrieval_escalation_expired/v1",
}


def record_opened(
    input_record: InputRecord, escalation: Escalation, reason: str, values: Sequence[Mapping[str, Any]] = ()
) -> OutRecord:
    """EscalationOpened. `values`: the looked-up values that did not simply pass."""
    fields: dict[str, Any] = {
        **fields_of(escalation),
        "reason": reason,
        "tier": escalation.tier,
        "required_role": escalation.role,
        "parameters_digest": escalation.parameters,
        "opened_at": rfc3339(escalation.opened_ms),
    }
    if escalation.quorum > 1:
        fields["quorum"] = escalation.quorum
    if escalation.own_key:
        fields["own_key"] = True
    if escalation.route is not None:
        fields |= _turn(escalation, escalation.route, 0)
    if values:
        fields["values"] = [*values]
    return event("EscalationOpened", fields, escalation, escalation.opened_ms, input_record)


def _turn(escalation: Escalation, route: Route, index: int) -> dict[str, Any]:
    """Whose turn it is, and when it is reminded and the next group gets the escalation."""
    at = {(step.event, step.position): rfc3339(step.at_ms) for step in route.steps(escalation.opened_ms)}
    return {
        "group": route.groups[index],
        "remind_at": at.get(("reminder", index)),
        "next_group": next(iter(route.groups[index + 1 :]), None),
        "next_at": at.get(("reroute", index + 1)),
    }


def take_steps(
    escalation: Escalation, now_ms: int, input_record: InputRecord | None = None
) -> tuple[list[OutRecord], Escalation]:
    """The steps of its route that are due at `now_ms` and not in the ledger yet, and the escalation after
    them. `input_record` is the input on which the worker noticed it, None for a timer."""
    records: list[OutRecord] = []
    while escalation.route is not None:
        step = escalation.next_step
        if step is None or step.at_ms > now_ms:
            break
        records.append(_step_record(escalation, escalation.route, step, now_ms, input_record))
        escalation = escalation.advance(step.event, now_ms, steps_done=escalation.steps_done + 1)
    return records, escalation


def _step_record(
    escalation: Escalation, route: Route, step: RouteStep, now_ms: int, input_record: InputRecord | None
) -> OutRecord:
    """EscalationReminded or EscalationRerouted."""
    number = f"{escalation.topic}:{escalation.partition}:{escalation.offset}:{step.position + 1}"
    fields = {**fields_of(escalation), "group": route.groups[step.position]}
    fields |= {"due_at": rfc3339(step.at_ms), "approvals": len(escalation.votes)}
    if step.event == "reminder":
        fields["reminder_id"] = f"reminder:{number}"
        return event("EscalationReminded", fields, escalation, now_ms, input_record)
    fields |= {"reroute_id": f"reroute:{number}", "from_group": route.groups[step.position - 1]}
    fields |= _turn(escalation, route, step.position)
    return event("EscalationRerouted", fields, escalation, now_ms, input_record)


class End(NamedTuple):
    """How an answer ended an escalation. `verdict_id` is that of the resolved verdict, None for a denial.
    `known_until_ms`: until when the action's values will be known by the answer, once it was carried out; 0:
    the answer makes none known."""

    decision: str
    outcome: str
    reason: str | None
    verdict_id: str | None
    known_until_ms: int = 0


def make_resolved_record(
    escalation: Escalation, input_record: InputRecord, signed: dict[str, Any], end: End
) -> OutRecord:
    """EscalationResolved. `input_record` is the review's; `signed` are the fields about the approver."""
    now = input_record.timestamp_ms
    fields: dict[str, Any] = {**fields_of(escalation), **signed, "decision": end.decision}
    if escalation.is_of_items:
        until = (
            None if end.outcome == "BLOCK" else rfc3339(now + escalation.expires_ms - escalation.opened_ms)
        )
        fields["usable_until"] = until
    else:
        fields |= {
            "outcome": end.outcome,
            "blockReason": end.reason,
            "resolved_verdict_id": end.verdict_id,
        }
        if end.known_until_ms:
            fields["known_until"] = rfc3339(end.known_until_ms)
    fields["resolved_at"] = rfc3339(now)
    return event("EscalationResolved", fields, escalation, now, input_record)


def make_counted_record(
    before: Escalation, after: Escalation, input_record: InputRecord, signed: dict[str, Any]
) -> OutRecord:
    """ApprovalCounted: the escalation before and after an approval that does not complete its quorum."""
    fields = {
        **fields_of(before),
        **signed,
        "approval_id": f"approval:{input_record.decision_id}",
        "approvals": len(after.votes),
        "quorum": after.quorum,
    }
    if not before.is_of_items:
        fields["approved_parameters"] = after.votes_for
    gone = [vote.approver_id for vote in before.votes if vote not in after.votes]
    if gone:
        fields["dropped"] = gone
        fields["dropped_because"] = NOT_ENTITLED if before.votes_for == after.votes_for else OTHER_PARAMETERS
    if after.tier != before.tier:
        fields |= {"tier": after.tier, "required_role": after.role}
    if after.own_key != before.own_key:
        fields["own_key"] = after.own_key
    return event("ApprovalCounted", fields, before, input_record.timestamp_ms, input_record)


def expire(
    escalation: Escalation, now_ms: int, input_record: InputRecord | None = None, *, evicted: bool = False
) -> tuple[OutRecord, EscalationKept]:
    """End an escalation whose time is over at `now_ms`, or (`evicted`) that must make room for a new one.

    `input_record` is the input on which the worker noticed it, None for a timer.
    """
    fields = {
        **fields_of(escalation),
        "reason": EVICTED if evicted else EXPIRED,
        "approvals": len(escalation.votes),
        "expired_at": rfc3339(now_ms),
    }
    after = escalation.advance("eviction" if evicted else "time", now_ms, outcome="BLOCK")
    return event("EscalationExpired", fields, escalation, now_ms, input_record), EscalationKept(after)


def open_in(
    book: Book, escalation: Escalation, most: int
) -> tuple[list[OutRecord], tuple[EscalationKept, ...]]:
    """The records and changes with which an escalation opens, but for the record of the opening. Where `most`
    are open, the agent that has the most loses its oldest one."""
    over = len(book.open) + 1 - most
    crowding = book.open.select_crowding(over) if over > 0 else ()
    evicted = [
        expire(evicted_escalation, escalation.opened_ms, evicted=True) for evicted_escalation in crowding
    ]
    changes = (*(change for _, change in evicted), EscalationKept(escalation))
    return [record for record, _ in evicted], changes


def expire_escalations(book: Book, now_ms: int, limit: int) -> Decision | None:
    """What time does to a partition's open escalations, `limit` at most: each takes the steps of its route
    that are due, and ends when its time is over. None: nothing is due."""
    records: list[OutRecord] = []
    changes: list[EscalationKept] = []
    for due in book.open.due(now_ms, limit):
        steps, escalation = take_steps(due, now_ms)
        records += steps
        change = EscalationKept(escalation)
        if escalation.expires_ms <= now_ms:
            record, change = expire(escalation, now_ms)
            records.append(record)
        changes.append(change)
    return Decision((), records, tuple(changes)) if changes else None


def fields_of(escalation: Escalation) -> dict[str, Any]:
    """The fields that every record about an escalation has."""
    return {
        "escalation_id": escalation.escalation_id,
        **_subject(escalation),
        "agent_id": escalation.agent_id,
        "session_id": escalation.session_id,
        "tenant_id": escalation.tenant,
        "expires_at": rfc3339(escalation.expires_ms),
    }


def _subject(escalation: Escalation) -> dict[str, Any]:
    if escalation.is_of_items:
        return {"request_id": escalation.subject_id, "request_hash": escalation.digest}
    return {
        "verdict_id": escalation.verdict_id,
        "action_id": escalation.subject_id,
        "action_digest": escalation.digest,
    }


def event(
    kind: str, fields: dict[str, Any], escalation: Escalation, now_ms: int, input_record: InputRecord | None
) -> OutRecord:
    """A record about an escalation of an action, or the one of a retrieval's in its place. Completes
    `fields`; `input_record` is its cause, None for a timer."""
    kind = f"Retrieval{kind}" if escalation.is_of_items else kind
    fields["schema"] = _SCHEMAS[kind]
    fields["decided_at"] = rfc3339(now_ms)
    fields["input"] = None if input_record is None else input_record.coordinates()
    return OutRecord(ESCALATIONS, kind, fields, escalation.session_id)
