"""A hosted model that is asked no more than it can take, and left alone while it is down."""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.adapters.models.fair_turns import FairTurns
from sluice.adapters.models.prompted_port import HostedModel, ModelDown, PromptedPort
from sluice.core.foundation.requests import NOBODY
from sluice.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from sluice.core.foundation.prompts import ModelAnswer, Prompt
    from sluice.core.foundation.requests import Asker

log = logging.getLogger(__name__)


class BreakerOpen(Exception):
    """Nothing was tried: what is asked is taken to be down."""


class Breaker:
    """After `failures` in a row nothing is tried for `open_s` seconds, then one attempt at a time until one
    succeeds. An attempt that is cancelled says nothing either way."""

    def __init__(
        self,
        name: str,
        failures: int,
        open_s: float,
        down: tuple[type[Exception], ...],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name`: as the log has it; `down`: the exceptions that count as failures. Any other one is an
        answer."""
        self._name = name
        self._most = failures
        self._open_s = open_s
        self._down = down
        self._now_s = now_s
        self._failures = 0
        self._until_s: float | None = None
        self._probe: object | None = None

    @property
    def refuses(self) -> bool:
        """Whether an attempt would be refused now."""
        return self._until_s is not None and (self._probe is not None or self._now_s() < self._until_s)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Try inside. Raises BreakerOpen."""
        if self.refuses:
            raise BreakerOpen
        mark = object()
        if self._until_s is not None:
            self._probe = mark
        answered: bool | None = None
        try:
            yield
            answered = True
        except Exception as error:
            answered = not isinstance(error, self._down)
            raise
        finally:
            self._note_end(mark, answered)

    def _note_end(self, mark: object, answered: bool | None) -> None:
        probing, self._probe = self._probe is mark, None if self._probe is mark else self._probe
        if answered is None:
            return
        if answered:
            if self._until_s is not None:
                log.warning("%s answers again", self._name)
            self._failures, self._until_s = 0, None
            return
        self._failures += 1
        if probing or (self._until_s is None and self._failures >= self._most):
            if not probing:
                log.error(
                    "%s failed %d times in a row: it is not asked for %g s at a time, until it answers",
                    self._name,
                    self._failures,
                    self._open_s,
                )
            self._until_s = self._now_s() + self._open_s


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """`in_flight`: questions that are asked at once; `waiting`: how many more may wait, None any number;
    `failures` and `open_s` as Breaker has them."""

    in_flight: int
    waiting: int | None
    failures: int
    open_s: float


class GuardedModel:
    """A model with a bound on what it is asked at once, a queue before it, and a breaker.

    What the model makes of a question never opens the breaker, so no author of a text can.
    """

    def __init__(
        self, inner: HostedModel, limits: LoadLimits, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`now_s`: a clock in seconds."""
        self.name = inner.name
        self.usage = inner.usage
        self._inner = inner
        self._limits = limits
        self._turns = FairTurns(limits.in_flight, limits.waiting)
        self._breaker = Breaker(
            f"the model {inner.name}", limits.failures, limits.open_s, (ModelDown,), now_s
        )

    async def judge(self, prompt: Prompt[Any], question: object) -> ModelAnswer:
        """Return the inner model's answer, in a turn of nobody's. Raises PortUnavailable and PortBusy."""
        async with self.turn(NOBODY):
            return await self.judge_in_turn(prompt, question)

    @asynccontextmanager
    async def turn(self, asker: Asker) -> AsyncIterator[float]:
        """Wait until one more of this asker may be asked; gives the seconds waited. Raises PortUnavailable
        while the model is down, and PortBusy."""
        if self._breaker.refuses:
            raise self._make_down()
        async with self._turns.turn(asker) as waited_s:
            yield waited_s

    async def judge_in_turn(self, prompt: Prompt[Any], question: object) -> ModelAnswer:
        """Return the inner model's answer to whoever has a turn. Raises PortUnavailable and PortBusy."""
        try:
            with self._breaker.attempt():
                return await self._inner.judge(prompt, question)
        except BreakerOpen:
            reason = self._make_down()
        raise reason

    def _make_down(self) -> PortUnavailable:
        return PortUnavailable(
            f"the model failed {self._limits.failures} times in a row: it is not asked now"
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._inner.close()


class GuardedPort(PromptedPort):
    """A prompted port whose questions wait for their turn before their budget begins. `waits_in_queue`:
    however long."""

    def __init__(self, prompt: Prompt[Any], model: GuardedModel, *, waits_in_queue: bool = False) -> None:
        """`model`: for a port that waits in the queue, one with no bound on what waits, or a question may be
        refused for load."""
        super().__init__(prompt, model)
        self.waits_in_queue = waits_in_queue
        self._guarded = model

    @asynccontextmanager
    async def turn(self, payload: object, asker: Asker) -> AsyncIterator[float]:
        """See `Queued`."""
        del payload
        async with self._guarded.turn(asker) as waited_s:
            yield waited_s

    async def _judge(self, question: object) -> ModelAnswer:
        return await self._guarded.judge_in_turn(self._prompt, question)
