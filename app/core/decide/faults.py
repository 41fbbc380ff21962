"""Answers where the core itself failed on an input, so that one input can neither stop nor loop a worker.

Product.md, "Bad input": denied `internal_error` (standard: allowed with an advisory), and a dead letter. The
denial is the kind's own; an input of a kind without one is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.decide.kinds import BY_MODEL, BY_TOPIC, DECISIONS
from app.core.foundation.refusals import INTERNAL_ERROR, dead_letter, refused, well_formed
from app.core.state.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.decide.kinds import Message
    from app.core.foundation.arrival import Arrival
    from app.core.foundation.chain import OutRecord
    from app.core.policy.point import PointParts
    from app.core.state.session import SessionState
    from topics.record_reading import Unreadable

CRASHED = "in flight at several crashes in a row, so nobody looked into it again"


def unread(parts: PointParts, arrival: Arrival, reason: str = CRASHED) -> Decision:
    """Deny an input without reading it; nothing in it is known, and no session changes."""
    letter, deny = dead_letter(arrival, INTERNAL_ERROR, "$", reason), BY_TOPIC[arrival.topic].unread
    if deny is None:
        return Decision(None, [_refused(arrival, None, None, reason), letter])
    return deny(parts, arrival, letter)


def fault(
    parts: PointParts,
    arrival: Arrival,
    message: Message | None,
    state: SessionState,
    reason: str,
) -> Decision:
    """Answer an input that made the core raise; `message` is None when reading it did."""
    reason = well_formed(reason)
    if message is None:
        return unread(parts, arrival, reason)
    letter, kind = dead_letter(arrival, INTERNAL_ERROR, "$", reason), BY_MODEL[type(message)]
    if kind.fault is None:
        refusal = _refused(arrival, kind.session_of(message), kind.subject_of(message), reason)
        return Decision(None, [refusal, letter])
    return kind.fault(parts, arrival, message, state, letter)


def fault_again(
    parts: PointParts, arrival: Arrival, message: Message, recorded: Mapping[str, Any], reason: str
) -> Decision:
    """The same for a decision that was recorded, on what it says that was seen of state."""
    letter = dead_letter(arrival, INTERNAL_ERROR, "$", well_formed(reason))
    return DECISIONS[recorded["schema"]].fault_again(parts, arrival, message, recorded, letter)


def _refused(arrival: Arrival, session_id: str | None, subject: str | None, reason: str) -> OutRecord:
    now = arrival.timestamp_ms
    return refused(arrival.coordinates(), now, session_id, subject, INTERNAL_ERROR, reason)


def unreadable(arrival: Arrival, error: Unreadable) -> Decision:
    """The dead letter of an unreadable input; no session changes."""
    return Decision(None, [dead_letter(arrival, error.code, error.path, error.message)])
