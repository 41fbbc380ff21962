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
from sluice.core.registry.freezes import find_stop
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
    input_record: InputRecord, memory: QuarantinedMemory, reason: str, book: Book, most: int
) -> tuple[list[OutRecord], list[Change]]:
    """The records and changes of a memory that goes into quarantine. While it is full, the agent that holds
    the most loses its oldest."""
    evicted = book.select_crowding(max(0, len(book) + 1 - most))
    records = [
        _record_event(
            "QuarantineEvicted",
            evicted_memory,
            memory.entered_ms,
            input_record,
            reason=EVICTED,
            by=memory.memory_id,
        )
        for evicted_memory in evicted
    ]
    after = memory.expires_ms - memory.entered_ms
    records.append(
        _record_event(
            "QuarantineEntered", memory, memory.entered_ms, input_record, reason=reason, reviewAfterMs=after
        )
    )
    return records, [*map(Left, evicted), Entered(memory)]


def expire(
    memory: QuarantinedMemory, now_ms: int, input_record: InputRecord | None = None
) -> tuple[OutRecord, Change]:
    """A memory whose time is over at `now_ms`; `input_record`: what found it so, None for a timer."""
    return _record_event("QuarantineExpired", memory, now_ms, input_record, reason=EXPIRED), Left(memory)


def expire_due(book: Book, now_ms: int, limit: int) -> Decision | None:
    """What time alone does to a partition's quarantine; None when nothing is due."""
    due = [expire(memory, now_ms) for memory in book.due(now_ms, limit)]
    if not due:
        return None
    return Decision((), [record for record, _ in due], tuple(change for _, change in due))


def record_review(
    memory: QuarantinedMemory, input_record: InputRecord, review: dict[str, Any], *, approved: bool
) -> OutRecord:
    """`review`: the fields about who answered."""
    kind = "QuarantineApproved" if approved else "QuarantineRejected"
    return _record_event(kind, memory, input_record.timestamp_ms, input_record, **review)


_SCHEMAS = {
    "QuarantineEntered": "sluice/quarantine_entered/v1",
    "QuarantineApproved": "sluice/quarantine_approved/v1",
    "QuarantineRejected": "sluice/quarantine_rejected/v1",
    "QuarantineExpired": "sluice/quarantine_expired/v1",
    "QuarantineEvicted": "sluice/quarantine_evicted/v1",
}


def _record_event(
    kind: str, memory: QuarantinedMemory, now_ms: int, input_record: InputRecord | None, **more: Any
) -> OutRecord:
    body = {
        "schema": _SCHEMAS[kind],
        **memory.fields(),
        **more,
        "decided_at": rfc3339(now_ms),
        "input": None if input_record is None else input_record.coordinates(),
    }
    return OutRecord(QUARANTINE, kind, body, memory.session_id)


ROLE = "reviewer"
APPROVE = "approve"


def evaluate(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, state: SessionState, shared: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on a review."""
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    memory = shared.book.find_quarantined(review.subject_id)
    wrong = _find_objection(parts.policy.registry, input_record, review, memory)
    if wrong is not None or memory is None:
        return _refuse(input_record, review, view, wrong or _object_to_unknown(review))
    if memory.expires_ms <= input_record.timestamp_ms:
        return _refuse_late(input_record, review, view, memory)
    write: ProposedMemoryWrite | None = None
    if review.decision == APPROVE:
        answer = yield ask_for_input(memory.topic, memory.partition, memory.offset)
        if shared.book.find_quarantined(review.subject_id) is None:
            return _refuse(input_record, review, view, _object_to_unknown(review))
        write = _read_content(answer, memory)
        if write is None:
            gone = Objection(
                "content_unavailable", "the input that holds the content could not be read again"
            )
            return _refuse(input_record, review, view, gone)
    return _decide(parts.policy.registry, input_record, review, view, memory, write)


def _find_objection(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, memory: QuarantinedMemory | None
) -> Objection | None:
    if memory is None or memory.session_id != review.session_id:
        return _object_to_unknown(review)
    if review.decision == "deny":
        return Objection("wrong_decision", "a memory is approved or rejected; deny answers an escalation")
    if review.digest != memory.content_digest:
        return Objection("wrong_digest", "the review is of other content than what is held")
    frozen = registry.find_freezes(memory.tenant, memory.agent_id, memory.session_id)
    if review.decision == APPROVE and (stop := find_stop(frozen)) is not None:
        return Objection("frozen", stop.word)
    return _find_signer_objection(registry, input_record, review, memory)


def _find_signer_objection(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, memory: QuarantinedMemory
) -> Objection | None:
    approver = registry.approvers.get(review.approver_id)
    if (
        approver is None
        or ROLE not in approver.roles
        or not approver.acts_for(memory.tenant, input_record.timestamp_ms)
    ):
        return Objection("not_a_reviewer", f"no reviewer of this tenant in force: {review.approver_id}")
    agent = registry.agents.get(memory.agent_id)
    owner = None if agent is None else agent.owner
    if review.approver_id in (memory.agent_id, memory.source_id, owner):
        return Objection("own_memory", "neither who wrote a memory nor the agent's owner reviews it")
    within = memory.tenant, ROLE
    return object_to_signature(registry, review, approver, within, input_record.timestamp_ms)


def _object_to_unknown(review: ReviewDecision) -> Objection:
    return Objection("unknown_subject", f"nothing of this session waits under {review.subject_id}")


def _read_content(answer: Answer, memory: QuarantinedMemory) -> ProposedMemoryWrite | None:
    """The write that is held, from the bytes at its coordinates; None when they are not what was held."""
    value = take_input(answer, memory.input_digest)
    write = None if value is None else read(ProposedMemoryWrite, value)
    return None if isinstance(write, Unreadable) else write


def _refuse(input_record: InputRecord, review: ReviewDecision, view: SessionView, why: Objection) -> Decision:
    records = [*make_time_records(view), refuse_review(input_record, review, why)]
    return Decision(() if view.state.gone else view.changes(), records)


def _refuse_late(
    input_record: InputRecord, review: ReviewDecision, view: SessionView, memory: QuarantinedMemory
) -> Decision:
    """The input's own time is past the memory's: it finds it expired, timer or not."""
    event, change = expire(memory, input_record.timestamp_ms, input_record)
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
    memory: QuarantinedMemory,
    write: ProposedMemoryWrite | None,
) -> Decision:
    """`write`: what to release; None for a rejection."""
    signer = make_signer_fields(registry, review)
    now = input_record.timestamp_ms
    records = [
        *make_time_records(view),
        record_review(memory, input_record, signer, approved=write is not None),
    ]
    if write is not None:
        records.append(release_memory(write, _describe_released(memory), now, review.approver_id))
    records.append(feedback(memory, approved=write is not None, now_ms=now))
    _remember(view, memory, approved=write is not None)
    return Decision(() if view.state.gone else view.changes(), records, (Left(memory),))


def _describe_released(memory: QuarantinedMemory) -> Released:
    coordinates = {
        "topic": memory.topic,
        "partition": memory.partition,
        "offset": memory.offset,
        "timestamp": memory.entered_ms,
        "digest": memory.input_digest,
    }
    return Released(
        memory.memory_id, memory.tenant, memory.source_type, memory.content_digest, memory.trust, coordinates
    )


def _remember(view: SessionView, memory: QuarantinedMemory, *, approved: bool) -> None:
    """What a person said goes for memories derived from it: at least the write threshold, or nothing."""
    owner = who(memory.tenant, memory.agent_id)
    write = view.write(owner, memory.write_id)
    if write is None or write.offset != memory.offset:
        return
    trust = max(memory.trust, memory.threshold) if approved else 0
    view.remember_write(owner, memory.write_id, write._replace(trust=trust))
