"""One input on its way through the core: read, evaluated, perhaps waiting for an answer, then linked.

Here, and nowhere else in the worker, an exception of the pure core becomes an answer (`guarded`): the input
is denied with `internal_error` and goes to the dead letters, its neighbours never notice.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from app.core.requests import Answer, Request
from topics.catalog import ACTIONS, OUTCOMES
from topics.headers import Headers, output_headers
from topics.reading import Unreadable, read
from topics.records import ActionOutcome, ProposedAction

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from app.core.arrival import Arrival
    from app.core.decide import DecisionPoint
    from app.core.decision import Decision
    from app.core.ledger.chain import Chain
    from app.core.session import SessionState, Transition

log = logging.getLogger(__name__)

MODELS: Mapping[str, type[ProposedAction | ActionOutcome]] = {
    ACTIONS: ProposedAction,
    OUTCOMES: ActionOutcome,
}
Message = ProposedAction | ActionOutcome
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Output:
    """A record ready to be produced; `topic` is its base name."""

    topic: str
    key: bytes
    value: bytes
    headers: Headers


@dataclass(frozen=True, slots=True)
class Linked:
    """A decision with its records numbered and chained, to be staged in the same synchronous step."""

    transition: Transition | None
    outputs: list[Output]


def guarded(attempt: Callable[[], T], answer: Callable[[str], T]) -> T:
    """`attempt()`, or `answer(reason)` when the core raises: the one place that survives a fault of it."""
    try:
        return attempt()
    except Exception as fault:
        log.exception("the core raised; the input is answered internal_error")
        where = traceback.extract_tb(fault.__traceback__)[-1]
        return answer(f"{type(fault).__name__} in {where.name}")


def link(decision: Decision, chain: Chain, source: str, traceparent: str | None) -> Linked:
    """Number and chain the decision's records; on a fault the chain is as before."""
    sequence, head = chain.sequence, chain.head
    try:
        outputs = [
            Output(
                record.topic,
                record.subject.encode(),
                chain.link(record.body),
                output_headers(record.body, record.kind, source, traceparent),
            )
            for record in decision.records
        ]
    except BaseException:
        chain.sequence, chain.head = sequence, head
        raise
    return Linked(decision.transition, outputs)


class Evaluation:
    """Drives the core for one arrival. `advance` returns what the core asks for, or the linked decision."""

    __slots__ = ("_at_home", "_generator", "_message", "_point", "_source", "arrival", "state")

    def __init__(
        self, point: DecisionPoint, source: str, arrival: Arrival, state: SessionState, *, at_home: bool
    ) -> None:
        """`at_home`: the record lies in the partition that its key belongs to."""
        self._at_home = at_home
        self._point = point
        self._source = source
        self._generator: Generator[Request, Answer, Decision] | None = None
        self._message: Message | None = None
        self.arrival = arrival
        self.state = state

    def advance(self, answer: Answer | None, chain: Chain) -> Request | Linked:
        """Start (answer None) or resume. A Linked result must be staged before anything else is awaited."""
        return guarded(lambda: self._advance(answer, chain), lambda reason: self._fault(reason, chain))

    def refuse_unread(self, chain: Chain) -> Linked:
        """The answer to an input that was in flight at three crashes: nobody looks into it again."""
        return self._linked(self._point.unread(self.arrival), chain)

    def _advance(self, answer: Answer | None, chain: Chain) -> Request | Linked:
        try:
            step = self._start() if answer is None else self._running().send(answer)
        except StopIteration as decided:
            step = decided.value
        return step if isinstance(step, Request) else self._linked(step, chain)

    def _start(self) -> Request | Decision:
        message = read(MODELS[self.arrival.topic], self.arrival.value)
        if isinstance(message, Unreadable):
            return self._point.unreadable(self.arrival, message)
        if message.session_id.encode() != self.arrival.key:
            return self._point.unreadable(self.arrival, KEY_MISMATCH)
        if not self._at_home:
            return self._point.unreadable(self.arrival, WRONG_PARTITION)
        self._message = message
        self._generator = self._point.evaluate(self.arrival, message, self.state)
        return next(self._generator)

    def _running(self) -> Generator[Request, Answer, Decision]:
        if self._generator is None:
            raise RuntimeError("resumed before it was started")
        return self._generator

    def _fault(self, reason: str, chain: Chain) -> Linked:
        if self._message is None:
            return self.refuse_unread(chain)
        return self._linked(self._point.fault(self.arrival, self._message, self.state, reason), chain)

    def _linked(self, decision: Decision, chain: Chain) -> Linked:
        return link(decision, chain, self._source, self.arrival.traceparent)


KEY_MISMATCH = Unreadable("key_mismatch", "$.session_id", "the message key must be the session_id, UTF-8")
WRONG_PARTITION = Unreadable(
    "wrong_partition",
    "$.session_id",
    "a session must stay in one partition: use the murmur2 partitioner, the default of the Java client "
    "(librdkafka: partitioner=murmur2_random)",
)
