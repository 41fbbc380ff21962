"""Where a review could still come first, timers act only when the broker has said where the reviews end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from sluice.core.decide.kinds import BY_TOPIC
from sluice.core.trust.in_force import InForce
from sluice.core.trust.policy_contents import NOTHING
from sluice.stream.engine.takeover import Recovered
from sluice_topics.catalog import REVIEWS
from tests.unit.core.memory.write_scene import REVIEWERS, memory_bundle
from tests.unit.core.scene import point
from tests.unit.stream.engine_settings import engine_settings, fail
from tests.unit.stream.test_partition_memory import NUMBER, PARTITIONS, make_held
from tests.unit.stream.test_policy_lost import Readings, Writes, make_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.stream.engine.sessions import PartitionedStore


POINT = point(*REVIEWERS, policy=memory_bundle())


class OneReading(Readings):
    def fold(self, records: object) -> InForce:
        del records
        return InForce(POINT, (), (), NOTHING)


class Store:
    """A partition that holds a memory whose time has long come."""

    def __init__(self) -> None:
        self.table: dict[bytes, bytes] = {}
        make_held(self.table)

    def partition(self, number: int) -> dict[bytes, bytes]:
        return self.table if number == NUMBER else {}


class Ends:
    """What the broker gives as the end of the reviews, once `answer` is set; before, it does not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.answer: int | None = None

    async def ask(self, topic: str, number: int) -> int | None:
        self.asked.append((topic, number))
        return self.answer


async def _tell(_: object) -> None:
    pass


async def test_nothing_expires_under_a_policy_that_cannot_be_read() -> None:
    readings, writes, ends = OneReading(), Writes(), Ends()
    settings = engine_settings(*BY_TOPIC, partitions=PARTITIONS, timer_interval_s=0.001)
    engine = make_engine(readings, writes, settings, fail, POINT, (0.01, 0.1))
    store = cast("PartitionedStore", Store())
    await engine.assign([NUMBER])
    readings.answers.clear()
    await asyncio.sleep(0.15)
    await engine.open(1, Recovered(store, {}, {}, lambda *_: 0, ends.ask, _tell))
    await asyncio.sleep(0.1)
    assert ends.asked == []
    readings.answers.set()
    async with asyncio.timeout(10):
        while not ends.asked:  # noqa: ASYNC110 - the engine tells nobody
            await asyncio.sleep(0.001)
    await engine.drain()


async def test_timers_wait_for_the_broker_and_for_every_review_up_to_the_end_that_it_gives() -> None:
    writes, ends = Writes(), Ends()
    settings = engine_settings(*BY_TOPIC, partitions=PARTITIONS, timer_interval_s=0.001)
    engine = make_engine(OneReading(), writes, settings, fail, POINT)

    def written() -> list[str]:
        values = [cast("tuple[Any, ...]", output)[3] for batch in writes.batches for output in batch.outputs]
        return [json.loads(value)["schema"].split("/")[1] for value in values]

    async def wait_until(reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not reached():  # noqa: ASYNC110 - the engine tells nobody
                await asyncio.sleep(0.001)

    async def wait_asked(times: int) -> None:
        until = len(ends.asked) + times
        await wait_until(lambda: len(ends.asked) >= until)

    store = cast("PartitionedStore", Store())
    await engine.assign([NUMBER])
    await engine.open(1, Recovered(store, {}, {}, lambda *_: 0, ends.ask, _tell))
    await wait_asked(3)
    assert set(ends.asked) == {(REVIEWS, NUMBER)}
    ends.answer = 1
    await wait_asked(3)
    engine.note_read(1, lambda *_: 0)
    await wait_asked(3)
    assert "quarantine_expired" not in written()
    engine.note_read(1, lambda *_: 1)
    await wait_until(lambda: "quarantine_expired" in written())
    begun = len(ends.asked)
    await asyncio.sleep(0.05)
    assert len(ends.asked) == begun, "nothing is due any more, and the broker is still asked"
    await engine.drain()
