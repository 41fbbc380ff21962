"""One partition of a worker without its shell: bytes in, chained ledger records out, sessions in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sluice.core.decide.kinds import message_of
from sluice.core.decide.replay import drive, nobody
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.requests import next_request
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.core.state.history import UNSEEN, SourceName
from sluice.core.state.session import SessionState, session_key
from sluice_topics.catalog import BY_NAME, SOURCE_FEEDBACK
from sluice_topics.json_text import Unreadable
from sluice_topics.records import SourceFeedback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.decide.kinds import Message
    from sluice.core.foundation.arrival import Arrival
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.state.decision import Decision
    from sluice.core.state.history import History
    from sluice.stream.engine.evaluation import Ports

_LEDGER = frozenset(name for name, topic in BY_NAME.items() if topic.ledger)


class Pipeline:
    """The pure core over one decision point, with a partition's quarantine and the sources' histories."""

    def __init__(self, point: DecisionPoint) -> None:
        self._point = point
        self._chain = Chain(0)
        self._sessions: dict[bytes, SessionState] = {}
        self._histories: dict[SourceName, History] = {}
        self._shared = Shared(Book({}), self._histories)

    def take(self, arrivals: Sequence[Arrival]) -> list[dict[str, Any]]:
        """Decide a chunk in the worker's order: read all, decide all, link all. The records' bodies."""
        messages = [message_of(arrival) for arrival in arrivals]
        decided = [self._decide(*one) for one in zip(arrivals, messages, strict=True)]
        return self._linked(decided)

    async def take_asking(self, arrivals: Sequence[Arrival], ports: Ports) -> list[dict[str, Any]]:
        """The same of readable inputs of different sessions, their requests asked of `ports` together."""
        messages = [message_of(arrival) for arrival in arrivals]
        going = [self._asking(*one, ports) for one in zip(arrivals, messages, strict=True)]
        return self._linked(await asyncio.gather(*going))

    async def _asking(self, arrival: Arrival, message: Message | Unreadable, ports: Ports) -> list[OutRecord]:
        if isinstance(message, Unreadable):
            return self._point.unreadable(arrival, message).records
        state = self._state(message)
        evaluation = self._point.evaluate(arrival, message, state, self._shared)
        try:
            request = next_request(evaluation)
            while True:
                request = next_request(evaluation, await ports.answer(request))
        except StopIteration as decided:
            return self._applied(state, decided.value)

    def _linked(self, decided: Sequence[list[OutRecord]]) -> list[dict[str, Any]]:
        written = [record for records in decided for record in records]
        for record in written:
            self._write(record)
        return [record.body for record in written]

    def _write(self, record: OutRecord) -> None:
        if record.topic in _LEDGER:
            self._chain.link(record.body, ordered=record.ordered, alike=record.alike)
            return
        body = record.body
        canonical(body, finite=True)
        if record.topic == SOURCE_FEEDBACK:
            name = SourceName(body["tenant_id"], body["source_id"])
            known = self._histories.get(name, UNSEEN)
            self._histories[name] = known.folded(body["type"], body["verdict"])

    def _decide(self, arrival: Arrival, message: Message | Unreadable) -> list[OutRecord]:
        if isinstance(message, Unreadable):
            return self._point.unreadable(arrival, message).records
        state = self._state(message)
        return self._applied(
            state, drive(self._point.evaluate(arrival, message, state, self._shared), nobody)
        )

    def _state(self, message: Message) -> SessionState:
        if isinstance(message, SourceFeedback):
            raise TypeError("what is learnt of a source is folded here, not read from a topic")
        key = session_key(message.session_id)
        state = self._sessions.get(key)
        if state is None:
            state = self._sessions[key] = SessionState(key)
        return state

    def _applied(self, state: SessionState, decision: Decision) -> list[OutRecord]:
        state.apply(decision.session)
        self._shared.book.apply(decision.book)
        return decision.records
