"""The quarantine's events, and reviews of quarantined memories (seed 003, "Quarantine").

A memory enters, and it leaves by a review, by time, or for want of room. A review is signed, bound to the
content's digest, by a registered reviewer, once.

The content is not in the state: an approval asks for the input that holds it and releases it in the same
transaction as its own record. While it waits for that, the memory may expire or be evicted, and then has: of
a review and of time, the one that the partition decides first is the one that happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.refusals import Objection, refuse_review
from sluice.core.foundation.requests import ask_for_input, take_input
from sluice.core.memory.admitted import Released, release_memory
from sluice.core.registry.review_signing import make_signer_fields, object_to_signature
from sluice.core.state.book import Entered, Left
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import make_time_records
from sluice.core.state.history import record_review as feedback
from sluice.core.state.quarantined import QuarantinedMemory
from sluice.core.state.session import who
from sluice.core.state.session_view import SessionView
from sluice_topics.catalog import QUARANTINE
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ProposedMemoryWrite

if TYPE_CHECKING:
    from collections.abc import Generator

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.memory.gate import WriteJudgement
    from sluice.core.memory.plan import WriteContext
    from sluice.core.policy.policy import PointParts
    from sluice.core.registry.registry import Registry
    from sluice.core.state.book import Book, Change
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState
    from sluice_topics.records import ReviewDecision

EXPIRED = "nobody reviewed it in time"
EVICTED = "the quarantine was full and this was the oldest of the agent that held the most"


def quarantine_write(context: WriteContext, judged: WriteJudgement) -> QuarantinedMemory:
    """The write as the state keeps it. Its time runs from the input's own."""
    input_record, write, policy = context.input_record, context.write, context.plan.bundle.memory
    return QuarantinedMemory(
        context.memory_id,
        write.write_id,
        write.agent_id,
        write.session_id,
        context.plan.tenant,
        write.source.id,
        context.source_type,
        context.content_digest,
        input_record.digest,
        input_record.topic,
        input_record.partition,
        input_record.offset,
        judged.total or 0,
        policy.trust.write_threshold,
        context.now_ms,
        context.now_ms + policy.review_after_ms,
    )


def enter(
    input_record: InputRecord, held: QuarantinedMemory, reason: str, book: Book, most: int
) -> tuple[list[OutRecord], list[Change]]:
    """The records and changes of a memory that goes into quarantine. While it is full, the agent that holds
    the most loses its oldest."""
    evicted = book.select_crowding(max(0, len(book) + 1 - most))
    records = [
        _record_event(
            "QuarantineEvicted", one, held.entered_ms, input_record, reason=EVICTED, by=held.memory_id
        )
        for one in evicted
    ]
    after = held.expires_ms - held.entered_ms
    records.append(
        _record_event(
            "QuarantineEntered", held, held.entered_ms, input_record, reason=reason, reviewAfterMs=after
        )
    )
    return records, [*map(Left, evicted), Entered(held)]


def expire(
    held: QuarantinedMemory, now_ms: int, input_record: InputRecord | None = None
) -> tuple[OutRecord, Change]:
    """A memory whose time is over at `now_ms`; `input_record`: what found it so, None for a timer."""
    return _record_event("QuarantineExpired", held, now_ms, input_record, reason=EXPIRED), Left(held)


def expire_due(book: Book, now_ms: int, limit: int) -> Decision | None:
    """What time alone does to a partition's quarantine; None when nothing is due."""
    due = [expire(one, now_ms) for one in book.due(now_ms, limit)]
    if not due:
        return None
    return Decision((), [record for record, _ in due], tuple(change for _, change in due))


def record_review(
    held: QuarantinedMemory, input_record: InputRecord, review: dict[str, Any], *, approved: bool
) -> OutRecord:
    """`review`: the fields about who answered."""
    kind = "QuarantineApproved" if approved else "QuarantineRejected"
    return _record_event(kind, held, input_record.timestamp_ms, input_record, **review)


_SCHEMAS = {
    "QuarantineEntered": "sluice/quarantine_entered/v1",
    "QuarantineApproved": "sluice/quarantine_approved/v1",
    "QuarantineRejected": "sluice/quarantine_rejected/v1",
    "QuarantineExpired": "sluice/quarantine_expired/v1",
    "QuarantineEvicted": "sluice/quarantine_evicted/v1",
}


def _record_event(
    kind: str, held: QuarantinedMemory, now_ms: int, input_record: InputRecord | None, **more: Any
) -> OutRecord:
    body = {
        "schema": _SCHEMAS[kind],
        **held.fields(),
        **more,
        "decided_at": rfc3339(now_ms),
        "input": None if input_record is None else input_record.coordinates(),
    }
    return OutRecord(QUARANTINE, kind, body, held.session_id)


ROLE = "reviewer"
APPROVE = "approve"


def evaluate(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, state: SessionState, shared: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on a review."""
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    held = shared.book.find_quarantined(review.subject_id)
    wrong = _find_objection(parts.policy.registry, input_record, review, held)
    if wrong is not None or held is None:
        return _refuse(input_record, review, view, wrong or _object_to_unknown(review))
    if held.expires_ms <= input_record.timestamp_ms:
        return _refuse_late(input_record, review, view, held)
    write: ProposedMemoryWrite | None = None
    if review.decision == APPROVE:
        answer = yield ask_for_input(held.topic, held.partition, held.offset)
        if shared.book.find_quarantined(review.subject_id) is None:
            return _refuse(input_record, review, view, _object_to_unknown(review))
        write = _read_content(answer, held)
        if write is None:
            gone = Objection(
                "content_unavailable", "the input that holds the content could not be read again"
            )
            return _refuse(input_record, review, view, gone)
    return _decide(parts.policy.registry, input_record, review, view, held, write)


def _find_objection(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, held: QuarantinedMemory | None
) -> Objection | None:
    if held is None or held.session_id != review.session_id:
        return _object_to_unknown(review)
    if review.decision == "deny":
        return Objection("wrong_decision", "a memory is approved or rejected; deny answers an escalation")
    if review.digest != held.content_digest:
        return Objection("wrong_digest", "the review is of other content than what is held")
    frozen = registry.find_freezes(held.tenant, held.agent_id, held.session_id)
    if frozen and review.decision == APPROVE:
        return Objection("frozen", f"frozen_{frozen[0].subject}: {frozen[0].reason}")
    return _find_signer_objection(registry, input_record, review, held)


def _find_signer_objection(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, held: QuarantinedMemory
) -> Objection | None:
    approver = registry.approvers.get(review.approver_id)
    if (
        approver is None
        or ROLE not in approver.roles
        or not approver.acts_for(held.tenant, input_record.timestamp_ms)
    ):
        return Objection("not_a_reviewer", f"no reviewer of this tenant in force: {review.approver_id}")
    agent = registry.agents.get(held.agent_id)
    owner = None if agent is None else agent.owner
    if review.approver_id in (held.agent_id, held.source_id, owner):
        return Objection("own_memory", "neither who wrote a memory nor the agent's owner reviews it")
    within = held.tenant, ROLE
    return object_to_signature(registry, review, approver, within, input_record.timestamp_ms)


def _object_to_unknown(review: ReviewDecision) -> Objection:
    return Objection("unknown_subject", f"nothing of this session waits under {review.subject_id}")


def _read_content(answer: Answer, held: QuarantinedMemory) -> ProposedMemoryWrite | None:
    """The write that is held, from the bytes at its coordinates; None when they are not what was held."""
    value = take_input(answer, held.input_digest)
    write = None if value is None else read(ProposedMemoryWrite, value)
    return None if isinstance(write, Unreadable) else write


def _refuse(input_record: InputRecord, review: ReviewDecision, view: SessionView, why: Objection) -> Decision:
    records = [*make_time_records(view), refuse_review(input_record, review, why)]
    return Decision(() if view.state.gone else view.changes(), records)


def _refuse_late(
    input_record: InputRecord, review: ReviewDecision, view: SessionView, held: QuarantinedMemory
) -> Decision:
    """The input's own time is past the memory's: it finds it expired, timer or not."""
    event, change = expire(held, input_record.timestamp_ms, input_record)
    decision = _refuse(
        input_record, review, view, Objection("expired", "the memory expired before the review")
    )
    decision.records.insert(-1, event)
    decision.book = (change,)
    return decision


def _decide(
    registry: Registry,
    input_record: InputRecord,
    review: ReviewDecision,
    view: SessionView,
    held: QuarantinedMemory,
    write: ProposedMemoryWrite | None,
) -> Decision:
    """`write`: what to release; None for a rejection."""
    told = make_signer_fields(registry, review)
    now = input_record.timestamp_ms
    records = [*make_time_records(view), record_review(held, input_record, told, approved=write is not None)]
    if write is not None:
        records.append(release_memory(write, _describe_released(held), now, review.approver_id))
    records.append(feedback(held, approved=write is not None, now_ms=now))
    _remember(view, held, approved=write is not None)
    return Decision(() if view.state.gone else view.changes(), records, (Left(held),))


def _describe_released(held: QuarantinedMemory) -> Released:
    coordinates = {
        "topic": held.topic,
        "partition": held.partition,
        "offset": held.offset,
        "timestamp": held.entered_ms,
        "digest": held.input_digest,
    }
    return Released(
        held.memory_id, held.tenant, held.source_type, held.content_digest, held.trust, coordinates
    )


def _remember(view: SessionView, held: QuarantinedMemory, *, approved: bool) -> None:
    """What a person said goes for memories derived from it: at least the write threshold, or nothing."""
    owner = who(held.tenant, held.agent_id)
    known = view.write(owner, held.write_id)
    if known is None or known.offset != held.offset:
        return
    trust = max(held.trust, held.threshold) if approved else 0
    view.remember_write(owner, held.write_id, known._replace(trust=trust))
