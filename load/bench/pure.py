"""One partition of a worker without its shell: bytes in, chained ledger records out, sessions in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.inbound import message_of
from app.core.ledger.chain import Chain
from app.core.replay import drive, nobody
from app.core.session import SessionState, session_key
from topics.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.arrival import Arrival
    from app.core.decide import DecisionPoint
    from app.core.decision import OutRecord
    from app.core.inbound import Message


class Pipeline:
    """The pure core over one decision point."""

    def __init__(self, point: DecisionPoint) -> None:
        self._point = point
        self._chain = Chain(0)
        self._sessions: dict[bytes, SessionState] = {}

    def take(self, arrivals: Sequence[Arrival]) -> list[dict[str, Any]]:
        """Decide a chunk in the worker's order: read all, decide all, link all. The records' bodies."""
        messages = [message_of(arrival) for arrival in arrivals]
        decided = [self._decide(*one) for one in zip(arrivals, messages, strict=True)]
        bodies = [record.body for records in decided for record in records]
        for body in bodies:
            self._chain.link(body)
        return bodies

    def _decide(self, arrival: Arrival, message: Message | Unreadable) -> list[OutRecord]:
        if isinstance(message, Unreadable):
            return self._point.unreadable(arrival, message).records
        key = session_key(message.session_id)
        state = self._sessions.get(key)
        if state is None:
            state = self._sessions[key] = SessionState(key)
        decision = drive(self._point.evaluate(arrival, message, state), nobody)
        state.apply(decision.transition)
        return decision.records
