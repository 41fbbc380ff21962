"""One input on its way through the core: it is evaluated, may wait for an answer, and is then decided.

For a request the shell awaits the named port within the request's budget.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from app.core.foundation.requests import Answer, Request
from app.ports import Lasting, Port, PortUnavailable
from app.stream.intake.inbound import guarded
from topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from app.core.decide.decide import DecisionPoint
    from app.core.foundation.arrival import Arrival
    from app.core.state.decision import Decision, Shared
    from app.core.state.session import SessionState
    from app.stream.intake.inbound import Inbound

log = logging.getLogger(__name__)


class Ports:
    """This worker's ports, by the name that stages use."""

    def __init__(self, ports: Mapping[str, Port]) -> None:
        self._ports = ports
        self._begun = False

    async def start(self, patience_s: float) -> None:
        """Make every port ready within this time; a port that is not ready answers as unavailable.

        Only the first call has an effect; later ones return at once, even if the ports are busy.
        """
        if self._begun:
            return
        self._begun = True
        await asyncio.gather(*(_started(name, port, patience_s) for name, port in self._ports.items()))

    async def close(self) -> None:
        """Close the ports."""
        for port in self._ports.values():
            if isinstance(port, Lasting):
                await port.close()

    async def answer(self, request: Request) -> Answer:
        """The answer with which the core is resumed. Any exception except PortUnavailable is an I/O fault
        and is raised."""
        port = self._ports.get(request.port)
        if port is None:
            return Answer("unavailable", detail=f"no port named {request.port}")
        try:
            async with asyncio.timeout(request.budget_ms / 1000):
                return Answer("answered", await port.ask(request.payload))
        except TimeoutError:
            return Answer("overrun", detail=f"over {request.budget_ms} ms")
        except PortUnavailable as reason:
            return Answer("unavailable", detail=str(reason))


async def _started(name: str, port: Port, patience_s: float) -> None:
    if not isinstance(port, Lasting):
        return
    try:
        async with asyncio.timeout(patience_s):
            await port.start()
    except TimeoutError:
        log.error("the port %s is not ready after %g s: on without it", name, patience_s)  # noqa: TRY400
    except PortUnavailable as reason:
        log.error("the port %s is not ready: %s", name, reason)  # noqa: TRY400 - what it says is enough


WRONG_PARTITION = Unreadable(
    "wrong_partition",
    "$.session_id",
    "a session must stay in one partition: use the murmur2 partitioner, the default of the Java client "
    "(librdkafka: partitioner=murmur2_random)",
)


class InputInProgress:
    """The evaluation of one input. `advance` returns the core's next request, or the decision."""

    __slots__ = ("_at_home", "_generator", "_message", "_point", "_shared", "arrival", "state")

    def __init__(
        self, point: DecisionPoint, inbound: Inbound, state: SessionState, shared: Shared, *, at_home: bool
    ) -> None:
        """`at_home`: the record is in the partition of its key."""
        self._point = point
        self._shared = shared
        self._message = inbound.message
        self._at_home = at_home
        self._generator: Generator[Request, Answer, Decision] | None = None
        self.arrival: Arrival = inbound.arrival
        self.state = state

    def advance(self, answer: Answer | None = None) -> Request | Decision:
        """Start, or resume with the answer. The caller must stage a decision before it awaits anything
        else."""
        return guarded(partial(self._advance, answer), self._fault)

    def _advance(self, answer: Answer | None) -> Request | Decision:
        try:
            return self._start() if self._generator is None else self._generator.send(answer)  # type: ignore[arg-type]
        except StopIteration as decided:
            decision: Decision = decided.value
            return decision

    def _start(self) -> Request | Decision:
        message = self._message
        if message is None:
            return self._point.unread(self.arrival)
        if isinstance(message, Unreadable):
            return self._point.unreadable(self.arrival, message)
        if not self._at_home:
            return self._point.unreadable(self.arrival, WRONG_PARTITION)
        self._generator = self._point.evaluate(self.arrival, message, self.state, self._shared)
        return next(self._generator)

    def _fault(self, reason: str) -> Request | Decision:
        message = self._message
        if message is None or isinstance(message, Unreadable):
            raise RuntimeError(f"no answer to an unreadable input: {reason}")
        return self._point.fault(self.arrival, message, self.state, reason)
