"""The quarantine's events: entered; left by a review, by time, for want of room (seed 003, "Quarantine")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.state.book import Entered, Left
from app.core.state.decision import Decision
from app.core.state.held import Held
from topics.catalog import QUARANTINE

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.memory.context import WriteContext
    from app.core.memory.gate import Judgement
    from app.core.state.book import Book, Change

EXPIRED = "nobody reviewed it in time"
EVICTED = "the quarantine was full and this was the oldest of the agent that held the most"


def held_of(arrival: Arrival, context: WriteContext, judged: Judgement) -> Held:
    """The write as the state keeps it. Its time runs from the input's own."""
    write, policy = context.write, context.bundle.memory
    return Held(
        context.memory_id,
        write.write_id,
        write.agent_id,
        write.session_id,
        context.tenant,
        write.source.id,
        context.source_type,
        context.content_digest,
        arrival.digest,
        arrival.topic,
        arrival.partition,
        arrival.offset,
        0 if judged.trust is None else judged.trust.total,
        policy.trust.write_threshold,
        context.now_ms,
        context.now_ms + policy.review_after_ms,
    )


def enter(
    arrival: Arrival, held: Held, reason: str, book: Book, most: int
) -> tuple[list[OutRecord], list[Change]]:
    """The records and changes of a memory that goes into quarantine. While it is full, the agent that holds
    the most loses its oldest."""
    evicted = book.crowding(max(0, len(book) + 1 - most))
    records = [
        _event("QuarantineEvicted", one, held.entered_ms, arrival, reason=EVICTED, by=held.memory_id)
        for one in evicted
    ]
    after = held.expires_ms - held.entered_ms
    records.append(
        _event("QuarantineEntered", held, held.entered_ms, arrival, reason=reason, reviewAfterMs=after)
    )
    return records, [*map(Left, evicted), Entered(held)]


def expire(held: Held, now_ms: int, arrival: Arrival | None = None) -> tuple[OutRecord, Change]:
    """A memory whose time is over at `now_ms`; `arrival`: the input that found it so, None for a timer."""
    return _event("QuarantineExpired", held, now_ms, arrival, reason=EXPIRED), Left(held)


def expired(book: Book, now_ms: int, limit: int) -> Decision | None:
    """What time alone does to a partition's quarantine; None when nothing is due."""
    due = [expire(one, now_ms) for one in book.due(now_ms, limit)]
    if not due:
        return None
    return Decision(None, [record for record, _ in due], tuple(change for _, change in due))


def reviewed(held: Held, arrival: Arrival, review: dict[str, Any], *, approved: bool) -> OutRecord:
    """`review`: approver_id, approver_entry, approver_hash and justification."""
    kind = "QuarantineApproved" if approved else "QuarantineRejected"
    return _event(kind, held, arrival.timestamp_ms, arrival, **review)


_SCHEMAS = {
    "QuarantineEntered": "sluice/quarantine_entered/v1",
    "QuarantineApproved": "sluice/quarantine_approved/v1",
    "QuarantineRejected": "sluice/quarantine_rejected/v1",
    "QuarantineExpired": "sluice/quarantine_expired/v1",
    "QuarantineEvicted": "sluice/quarantine_evicted/v1",
}


def _event(kind: str, held: Held, now_ms: int, arrival: Arrival | None, **more: Any) -> OutRecord:
    body = {
        "schema": _SCHEMAS[kind],
        **held.fields(),
        **more,
        "decided_at": rfc3339(now_ms),
        "input": None if arrival is None else arrival.coordinates(),
    }
    return OutRecord(QUARANTINE, kind, body, held.session_id)
