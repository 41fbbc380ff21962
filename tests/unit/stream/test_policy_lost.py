"""Mend 22.8: a worker that reads less policy than a partition recorded reads once more, and then stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluice.core.foundation.input_record import InputRecord
from sluice.core.trust.in_force import InForce
from sluice.core.trust.policy_contents import Edition, EditionDifference, PolicyContents
from sluice.stream.engine.engine import Engine, Feeds
from sluice.stream.engine.evaluation import Ports
from sluice.stream.engine.intake import FetchedBatch
from sluice.stream.engine.policy_recorder import POLICY_KEY
from sluice.stream.engine.takeover import MOST_LINES, PolicyLost, Recovered
from sluice.stream.feeds.policy_feed import PolicyFeed
from sluice.stream.feeds.shared_feeds import Kept, ProvenanceFeed, SourceFeed, UseFeed
from sluice.stream.process import EXIT_POLICY, MOST_SIGNS, SystemClock, choose_ending
from sluice_topics.catalog import ACTIONS, REGISTRY
from tests.unit.core.scene import point
from tests.unit.stream.engine_settings import engine_settings
from tests.unit.stream.test_assignment import Broker, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.stream.engine.engine_settings import EngineSettings
    from sluice.stream.engine.sessions import PartitionedStore
    from sluice.stream.engine.transaction import Batch, Transactor

NUMBER = 5
OLD = PolicyContents({"tool/wipe": Edition(1, "a" * 32)}, "sha256:" + "a" * 64)
NEW = PolicyContents({"tool/wipe": Edition(2, "b" * 32)}, "sha256:" + "b" * 64)
LOST = EditionDifference("tool/wipe", NEW.editions["tool/wipe"], OLD.editions["tool/wipe"])


class Readings:
    """Control topics with one more record at each reading: with it the policy is that of the reading."""

    def __init__(self, *contents: PolicyContents) -> None:
        self._contents = contents
        self.count = 0
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def to_end(self) -> list[InputRecord]:
        self.asked.set()
        await self.answers.wait()
        self.count += 1
        return [InputRecord(REGISTRY, 0, self.count, self.count, None, b"")] * (
            self.count <= len(self._contents)
        )

    async def close(self) -> None:
        pass

    def fold(self, records: Sequence[InputRecord]) -> InForce:
        return InForce(point(), (), (), self._contents[len(records) - 1])


class Writes:
    """Every transaction of the partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.stopped = 0
        self.begins = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def start(self) -> None:
        pass

    async def begin(self, topics: object) -> None:
        pass

    async def write(self, batch: Batch) -> int:
        self.begins.set()
        await self.answers.wait()
        self.batches.append(batch)
        return len(self.batches)

    async def stop(self) -> None:
        self.stopped += 1


class Store:
    """The recovered state: NEW was in force last."""

    def partition(self, number: int) -> dict[bytes, bytes]:
        assert number == NUMBER
        return {POLICY_KEY: NEW.encode()}


def make_engine(
    readings: Readings,
    writes: Writes,
    settings: EngineSettings,
    fail: Callable[[BaseException], None],
    first: DecisionPoint | None = None,
    times: tuple[float, float] = (3600.0, 3600.0),
) -> Engine:
    """An engine whose other feeds are empty. `first`: the point to start with; `times`: between two readings
    of the policy, and its largest lag, s."""
    broker = Broker()
    return Engine(
        Feeds(
            PolicyFeed(first or point(), readings, readings.fold, *times),
            SourceFeed(Topic(broker, "histories"), 3600.0),
            ProvenanceFeed(Topic(broker, "references"), 3600.0, Kept(1, 1), lambda: 0),
            UseFeed(Topic(broker, "uses"), 3600.0),
        ),
        Ports({}),
        settings,
        lambda _: cast("Transactor", writes),
        SystemClock(),
        fail,
    )


class Worker:
    """An engine over these readings of the control topics, with what became of it."""

    def __init__(self, *contents: PolicyContents, **more: Any) -> None:
        """`more`: see make_engine."""
        self.readings = Readings(*contents)
        self.writes = Writes()
        self.faults: list[BaseException] = []
        self.engine = make_engine(
            self.readings, self.writes, engine_settings(ACTIONS), self.faults.append, **more
        )

    async def start(self) -> None:
        await self.engine.assign([NUMBER])
        await self.open()

    async def open(self) -> None:
        store = cast("PartitionedStore", Store())
        await self.engine.open(1, Recovered(store, {}, {}, lambda *_: None, _give_no_end, _tell))

    def list_recorded(self) -> list[str]:
        """What every transaction wrote to the policy's topic, by its trigger."""
        values: list[Any] = [one for batch in self.writes.batches for one in batch.outputs]
        return [str(one[3]) for one in values]


async def _give_no_end(_: str, __: int) -> None:
    return None


async def _tell(_: object) -> None:
    pass


async def test_a_snapshot_that_is_merely_behind_catches_up() -> None:
    """Another worker recorded a newer entry after this one had read to the end."""
    worker = Worker(OLD, NEW)
    await worker.start()
    assert worker.readings.count == 2
    assert worker.engine.numbers == [NUMBER]
    (said,) = worker.list_recorded()
    assert '"trigger":"start"' in said
    assert NEW.digest in said
    await worker.engine.drain()


async def test_what_is_still_missing_after_that_stops_the_worker_before_it_writes() -> None:
    worker = Worker(OLD)
    with pytest.raises(PolicyLost) as stopped:
        await worker.start()
    assert stopped.value.lost == (LOST,)
    assert worker.readings.count == 2
    assert worker.writes.batches == []
    assert worker.engine.numbers == []
    assert worker.writes.stopped == 1


async def test_partitions_that_are_revoked_while_the_policy_is_read_once_more_are_not_opened() -> None:
    """Mend 22.8: their next owner may be at work; and a loss is its matter."""
    for contents in ((OLD, NEW), (OLD,)):
        worker = Worker(*contents)
        await worker.engine.assign([NUMBER])
        worker.readings.asked.clear()
        worker.readings.answers.clear()
        opening = asyncio.create_task(worker.open())
        await worker.readings.asked.wait()
        await worker.engine.drain()
        worker.readings.answers.set()
        await opening
        assert worker.engine.numbers == []
        assert worker.writes.batches == []
        assert worker.writes.stopped == 1


async def test_partitions_that_are_revoked_while_they_open_take_no_input() -> None:
    """Mend 22.8: nothing of a past assignment goes on."""
    worker = Worker(NEW)
    await worker.engine.assign([NUMBER])
    worker.writes.answers.clear()
    opening = asyncio.create_task(worker.open())
    await worker.writes.begins.wait()
    revoked = asyncio.create_task(worker.engine.drain())
    await asyncio.sleep(0)
    worker.writes.answers.set()
    await asyncio.gather(opening, revoked)
    assert worker.engine.numbers == []
    await worker.engine.deliver(FetchedBatch(1, [InputRecord(ACTIONS, NUMBER, 0, 0, None, b"")]))
    assert worker.writes.stopped == 1


async def test_policy_that_becomes_less_under_a_running_worker_stops_it_and_what_was_in_force_stays() -> None:
    worker = Worker(NEW)
    await worker.start()
    worker.engine.use(point(), (), OLD)
    (fault,) = worker.faults
    assert isinstance(fault, PolicyLost)
    assert fault.lost == (LOST,)
    await worker.engine.drain()
    assert not any(OLD.digest in said for said in worker.list_recorded())


def test_the_last_line_says_what_is_missing_what_to_do_and_that_a_new_start_does_not_help(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [f"fact/{'x' * 250}@{n:02}" for n in range(30)]
    lost = PolicyLost(EditionDifference(name, Edition(2**53 - 1, "a" * 32), None) for name in names)
    found = choose_ending(lost)
    assert (found.status, found.traced) == (EXIT_POLICY, False)
    assert "and 28 more; publish the signed files again" in found.line
    assert found.line.endswith("sluice registry accept-loss (docs/policy.md)")
    assert len(found.line) < MOST_SIGNS + len("the worker stops with status 5: ")
    lost.tell()
    assert len(caplog.messages) == MOST_LINES + 1
    assert caplog.messages[-1] == "policy lost: and 10 more entries"


async def _deliver_to_late(worker: Worker) -> tuple[FetchedBatch, asyncio.Task[None]]:
    """An input to a worker whose control topics do not answer, and which has waited for them too long."""
    await worker.start()
    worker.readings.answers.clear()
    await asyncio.sleep(0.15)
    batch = FetchedBatch(1, [InputRecord(ACTIONS, NUMBER, 0, 0, None, b"")])
    delivering = asyncio.create_task(worker.engine.deliver(batch))
    await asyncio.sleep(0.2)
    assert not delivering.done()
    return batch, delivering


def _count_decided(worker: Worker) -> int:
    return sum('"dead_letter_id"' in record for record in worker.list_recorded())


async def test_inputs_wait_while_the_policy_cannot_be_read_and_go_on_afterwards() -> None:
    worker = Worker(NEW, times=(0.01, 0.1))
    batch, delivering = await _deliver_to_late(worker)
    worker.readings.answers.set()
    await asyncio.wait_for(delivering, 10)
    assert batch.delivered.is_set()
    await worker.engine.drain()
    assert _count_decided(worker) == 1


async def test_a_revocation_drops_inputs_that_wait_for_the_policy() -> None:
    worker = Worker(NEW, times=(0.01, 0.1))
    _, delivering = await _deliver_to_late(worker)
    await worker.engine.drain()
    await asyncio.wait_for(delivering, 10)
    assert _count_decided(worker) == 0
