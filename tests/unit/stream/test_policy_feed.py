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
    from collections.abc import Sequence

    import pytest

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.core.trust.refused import Refused
    from sluice.core.trust.revisions import Accepted

WAIT_S = 10.0


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
    records: int, fold: Any = lambda records: Ruling(len(records)), max_lag_s: float = 60.0
) -> PolicyFeed:
    return PolicyFeed(cast("DecisionPoint", 0), Topics(records), fold, 0.0, max_lag_s)


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


async def test_the_policy_is_current_for_the_lag_after_the_beginning_of_its_reading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The wait for an answer of the topics counts: what comes meanwhile may not be in it."""
    caplog.set_level("INFO")
    feed, used = _feed(1, max_lag_s=0.2), Used()
    assert not feed.is_current()
    await feed.catch_up(used)
    assert feed.is_current()
    waiting = asyncio.create_task(feed.wait_until_current())
    await waiting
    await asyncio.sleep(0.25)
    assert not feed.is_current()
    waiting = asyncio.create_task(feed.wait_until_current())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await feed.catch_up(used)
    await asyncio.wait_for(waiting, WAIT_S)
    texts = [record.message for record in caplog.records]
    assert texts.count("policy: not read for more than 0.2 s; inputs wait until it is") == 1
    assert texts.count("policy: read again") == 1


async def test_a_reading_that_took_longer_than_the_lag_makes_nothing_current() -> None:
    def reduce_slowly(records: Sequence[InputRecord]) -> Ruling:
        time.sleep(0.3)
        return Ruling(len(records))

    feed = _feed(1, reduce_slowly, max_lag_s=0.2)
    await feed.catch_up(Used())
    assert not feed.is_current()
    await feed.catch_up(Used())
    assert feed.is_current()
