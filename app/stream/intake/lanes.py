"""Keep the order within each session while many sessions run: a session that waits delays only its own
inputs.

An input whose evaluation sends no request is decided in the same synchronous step in which it is delivered;
a lane (and a task) exists only while a session waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from app.core.foundation.requests import Request
from app.stream.process import start_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.state.decision import Decision
    from app.stream.intake.evaluation import InputInProgress, Ports
    from app.stream.intake.inbound import Inbound


class Lanes:
    """The waiting sessions of one partition.

    `begin` makes an InputInProgress on the session's state at that moment; `finish` stages its result. There
    is no await between the core's decision and `finish`.
    """

    def __init__(
        self,
        ports: Ports,
        begin: Callable[[Inbound], InputInProgress],
        finish: Callable[[InputInProgress, Decision], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._ports = ports
        self._begin = begin
        self._finish = finish
        self._fail = fail
        self.waiting: dict[bytes, deque[Inbound]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self, key: bytes, inbound: Inbound) -> None:
        """Decide the input now, or when its session no longer waits."""
        lane = self.waiting.get(key)
        if lane is not None:
            lane.append(inbound)
            return
        request, evaluation = self._decide(inbound)
        if request is not None:
            self.waiting[key] = deque()
            task = start_task(self._wait(key, evaluation, request), self._fail)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Drop waiting inputs. They changed nothing, and their offsets stay undecided for the next owner."""
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.waiting.clear()

    def _decide(self, inbound: Inbound) -> tuple[Request | None, InputInProgress]:
        evaluation = self._begin(inbound)
        return self._settle(evaluation, evaluation.advance()), evaluation

    def _settle(self, evaluation: InputInProgress, step: Request | Decision) -> Request | None:
        if isinstance(step, Request):
            return step
        self._finish(evaluation, step)
        return None

    async def _wait(self, key: bytes, evaluation: InputInProgress, request: Request) -> None:
        lane = self.waiting[key]
        asked: Request | None = request
        while True:
            while asked is not None:
                answer = await self._ports.answer(asked)
                asked = self._settle(evaluation, evaluation.advance(answer))
            if not lane:
                break
            asked, evaluation = self._decide(lane.popleft())
        del self.waiting[key]
