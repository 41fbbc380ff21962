"""The policy of a running worker: what was read is put in force, whatever happened to who read it."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sluice.core.foundation.input_record import InputRecord
from sluice.core.trust.policy_contents import NOTHING
from sluice.stream.feeds.policy_feed import PolicyFeed
from sluice_topics.catalog import BUNDLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.core.trust.refused import Refused
    from sluice.core.trust.revisions import Accepted

WAIT_S = 10.0
MAX_LAG_S = 60.0


@dataclass(frozen=True)
class Ruling:
    """The point is only handed on: the number of records stands for it."""

    records: int

    @property
    def point(self) -> DecisionPoint:
        return cast("DecisionPoint", self.records)

    @property
    def refused(self) -> tuple[Refused, ...]:
        return ()

    @property
    def entries(self) -> tuple[Accepted, ...]:
        return ()

    @property
    def contents(self) -> PolicyContents:
        return NOTHING


class Topics:
    """Control topics that hold one more record at each reading, up to `records`."""

    def __init__(self, records: int) -> None:
        self._left = [InputRecord(BUNDLES, 0, offset, offset, None, b"") for offset in range(records)]

    async def to_end(self) -> list[InputRecord]:
        return [self._left.pop(0)] if self._left else []

    async def close(self) -> None:
        """Nothing is open."""


class Used(list[Any]):
    """Every point that was put in force."""

    def __call__(self, point: DecisionPoint, refused: Sequence[Refused], contents: PolicyContents) -> None:
        assert not refused
        assert contents == NOTHING
        self.append(point)


def _feed(
    records: int,
    fold: Any = lambda records: Ruling(len(records)),
    clock: Callable[[], float] = time.monotonic,
) -> PolicyFeed:
    return PolicyFeed(cast("DecisionPoint", 0), Topics(records), fold, 0.0, MAX_LAG_S, clock)


async def test_each_change_is_folded_with_all_before_it_and_nothing_new_is_not_folded_again() -> None:
    feed, used = _feed(2), Used()
    for _ in range(4):
        await feed.catch_up(used)
    assert used == [1, 2]


async def test_what_was_read_before_a_cancellation_is_in_force_after_the_next_reading() -> None:
    """A rebalance cancels `follow` while a fold runs; the new assignment must not decide under the old."""
    folding, go_on = threading.Event(), threading.Event()

    def slow(records: Sequence[InputRecord]) -> Ruling:
        folding.set()
        assert go_on.wait(WAIT_S)
        return Ruling(len(records))

    feed, used = _feed(1, slow), Used()
    following = asyncio.create_task(feed.follow(used))
    await asyncio.to_thread(folding.wait, WAIT_S)
    following.cancel()
    await asyncio.wait([following])
    go_on.set()
    assert used == []
    await feed.catch_up(used)
    assert used == [1]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


LATE = f"policy: not read for more than {MAX_LAG_S:g} s; inputs wait until it is"


async def test_the_policy_is_current_for_the_lag_after_the_beginning_of_its_reading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The wait for an answer of the topics counts: what comes meanwhile may not be in it."""
    caplog.set_level("INFO")
    clock, used = Clock(), Used()
    feed = _feed(1, clock=clock)
    assert not feed.is_current()
    await feed.catch_up(used)
    clock.now_s += MAX_LAG_S
    assert await feed.wait_until_current() == 0
    clock.now_s += 1
    waiting = [asyncio.create_task(feed.wait_until_current()) for _ in range(3)]
    await asyncio.sleep(0)
    clock.now_s += 5
    assert not any(task.done() for task in waiting)
    await feed.catch_up(used)
    assert await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S) == [5.0] * 3
    texts = [record.message for record in caplog.records]
    assert (texts.count(LATE), texts.count("policy: read again")) == (1, 1)


async def test_a_reading_that_took_longer_than_the_lag_makes_nothing_current() -> None:
    clock = Clock()

    def reduce_slowly(records: Sequence[InputRecord]) -> Ruling:
        clock.now_s += MAX_LAG_S + 1
        return Ruling(len(records))

    feed = _feed(1, reduce_slowly, clock)
    await feed.catch_up(Used())
    assert not feed.is_current()
    await feed.catch_up(Used())
    assert feed.is_current()


async def test_whoever_waits_for_a_policy_that_is_wanted_no_more_is_let_go() -> None:
    feed, wanted = _feed(0, clock=Clock()), [True]
    waiting = asyncio.create_task(feed.wait_until_current(lambda: bool(wanted)))
    await asyncio.sleep(0)
    feed.release()
    await asyncio.sleep(0)
    assert not waiting.done()
    wanted.clear()
    feed.release()
    await asyncio.wait_for(waiting, WAIT_S)
    assert not feed.is_current()
