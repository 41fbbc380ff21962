"""What is fetched reaches the engine through Faust's agents: its consumer, fetcher, conductor and streams run
here, without a broker."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from faust.agents import current_agent
from faust.types import TP

from sluice.stream.application import ApplicationSettings, build_application
from sluice.stream.consumer import BatchConsumer
from sluice.stream.engine.intake import OffsetGap
from sluice.stream.process import StopBound
from sluice_topics.catalog import ACTIONS, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sluice.stream.application import SluiceApp
    from sluice.stream.engine.engine import Engine
    from sluice.stream.engine.intake import FetchedBatch

PATIENCE_S = 30.0
PREFIX = "test."
FIRST, SECOND = TP(PREFIX + ACTIONS, 3), TP(PREFIX + OUTCOMES, 3)
SETTINGS = ApplicationSettings(
    app_id="test",
    cluster="127.0.0.1:1",
    partitions=8,
    input_names={PREFIX + ACTIONS: ACTIONS, PREFIX + OUTCOMES: OUTCOMES},
    session_timeout_s=6,
    heartbeat_interval_s=2,
    rebalance_timeout_s=60,
    request_timeout_s=30,
    max_poll_records=500,
)


@dataclass(frozen=True)
class Record:
    """What aiokafka returns, as far as an input record needs it."""

    partition: int
    offset: int
    timestamp: int = 0
    key: bytes | None = b"s"
    value: bytes | None = b"{}"
    headers: tuple[tuple[str, bytes]] | tuple[()] = ()


Fetched = dict[TP, list[Record]]


class FedConsumer(BatchConsumer):
    """Fetches what the test lays down, and nothing from a broker."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.laid: deque[Fetched] = deque()
        self.fetches = 0
        self.on_fetch: Callable[[], None] = lambda: None
        self.sought: list[Mapping[Any, int]] = []
        self.committed: list[Mapping[Any, int]] = []

    async def _getmany(self, active_partitions: set[Any] | None, timeout: float) -> Any:  # noqa: ASYNC109
        del active_partitions, timeout
        self.fetches += 1
        self.on_fetch()
        await asyncio.sleep(0)
        return self.laid.popleft() if self.laid else {}

    def _keep_fetches(self, max_wait_ms: int) -> None:
        pass

    def fetch_position(self, tp: Any) -> int | None:
        return 0 if tp in self.assignment() else None

    def assignment(self) -> set[Any]:
        return {FIRST, SECOND}

    async def _seek(self, partition: Any, offset: int) -> None:
        pass

    async def _commit(self, offsets: Mapping[Any, int]) -> bool:
        self.committed.append(offsets)
        return True

    async def seek_wait(self, partitions: Mapping[Any, int]) -> None:
        self.sought.append(dict(partitions))


@dataclass
class TakingEngine:
    """Writes down what it is given, and takes it when `takes` is set."""

    fault: Exception | None = None
    takes: asyncio.Event = field(default_factory=asyncio.Event)
    taken: list[FetchedBatch] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    def select_wanted(self, numbers: set[int]) -> set[int]:
        return numbers

    async def deliver(self, batch: FetchedBatch) -> None:
        agent = current_agent()
        assert agent is not None
        self.agents.append(agent.name)
        self.taken.append(batch)
        if self.fault is not None:
            raise self.fault
        await self.takes.wait()
        batch.delivered.set()

    def note_read(self, generation: int, read: Callable[[str, int], int | None]) -> None:
        assert read(FIRST.topic, FIRST.partition) == 0
        self.read.append(generation)


@dataclass
class Worker:
    app: SluiceApp
    engine: TakingEngine
    consumer: FedConsumer
    faults: list[BaseException]

    def lay(self, tp: TP, *offsets: int) -> None:
        """A fetch to come with these offsets."""
        self.consumer.laid.append({tp: [Record(tp.partition, offset) for offset in offsets]})

    async def wait_until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - what it waits for is Faust's
                await asyncio.sleep(0.001)

    async def some_turns(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    def rebalance(self, generation: int) -> None:
        """As Faust does it: the flow stops, queues are cleared, a new generation flows."""
        self.stop_flow()
        self.app.consumer_generation_id = generation
        self.app.flow_control.resume()
        self.consumer.resume_flow()

    def stop_flow(self) -> None:
        self.consumer.stop_flow()
        self.app.flow_control.suspend()
        self.app.flow_control.clear()

    def offsets(self) -> list[list[int]]:
        return [[input_record.offset for input_record in batch.input_records] for batch in self.engine.taken]


@asynccontextmanager
async def run_worker(engine: TakingEngine) -> AsyncIterator[Worker]:
    """Faust's fetcher and agents over this engine, with both partitions assigned in generation 1."""
    faults: list[BaseException] = []
    bound = StopBound(PATIENCE_S, PATIENCE_S, faults.append, lambda _: None)
    app = build_application(SETTINGS, cast("Engine", engine), faults.append, lambda _: None, bound)
    app.transport.Consumer = FedConsumer
    app.consumer_generation_id = 1
    await app.agents.start()
    await app.topics.on_partitions_assigned({FIRST, SECOND})
    app.consumer.resume_partitions({FIRST, SECOND})
    app.flow_control.resume()
    app.consumer.resume_flow()
    fetcher = app.transport.Fetcher(app, loop=app.loop, beacon=app.consumer.beacon)
    await fetcher.start()
    try:
        yield Worker(app, engine, app.consumer, faults)
    finally:
        engine.takes.set()
        await fetcher.stop()
        await app.agents.stop()


def make_taking(fault: Exception | None = None) -> TakingEngine:
    engine = TakingEngine(fault)
    engine.takes.set()
    return engine


async def test_a_fetched_batch_is_one_message_to_the_agent_of_its_topic() -> None:
    async with run_worker(make_taking()) as worker:
        worker.lay(FIRST, 5, 6, 7)
        worker.lay(SECOND, 1)
        await worker.wait_until(lambda: len(worker.engine.read) >= 3)
    assert worker.offsets() == [[5, 6, 7], [1]]
    assert worker.engine.agents == [f"decide:{FIRST.topic}", f"decide:{SECOND.topic}"]
    assert [batch.input_records[0].topic for batch in worker.engine.taken] == [ACTIONS, OUTCOMES]
    assert worker.faults == []


async def test_nothing_more_is_fetched_or_noted_as_read_before_the_engine_has_taken_all_of_it() -> None:
    async with run_worker(TakingEngine()) as worker:
        worker.consumer.laid.append({tp: [Record(3, 0)] for tp in (FIRST, SECOND)})
        await worker.wait_until(lambda: len(worker.engine.taken) == 2)
        noted, fetched = len(worker.engine.read), worker.consumer.fetches
        await worker.some_turns()
        assert (len(worker.engine.read), worker.consumer.fetches) == (noted, fetched)
        worker.engine.takes.set()
        await worker.wait_until(lambda: len(worker.engine.read) > noted and worker.consumer.fetches > fetched)


async def test_a_fault_of_the_engine_stops_the_worker_and_no_agent_starts_again_without_its_batch() -> None:
    gap = OffsetGap("expected offset 6, got 8")
    async with run_worker(make_taking(gap)) as worker:
        worker.lay(FIRST, 8)
        worker.lay(FIRST, 9)
        await worker.wait_until(lambda: worker.faults)
        await worker.some_turns()
        assert worker.faults == [gap]
        assert worker.offsets() == [[8]]
        assert worker.app.agents.crashed


async def test_a_batch_of_a_past_generation_reaches_no_agent_and_the_next_one_does() -> None:
    async with run_worker(TakingEngine()) as worker:
        worker.lay(FIRST, 0)
        await worker.wait_until(lambda: worker.engine.taken)
        worker.stop_flow()
        worker.engine.takes.set()
        await worker.some_turns()
        worker.lay(FIRST, 0, 1)
        worker.rebalance(2)
        await worker.wait_until(lambda: len(worker.engine.taken) > 1)
    assert worker.offsets() == [[0], [0, 1]]
    assert [batch.generation for batch in worker.engine.taken] == [1, 2]


async def test_what_waits_for_a_busy_agent_when_a_rebalance_begins_is_dropped_and_holds_nothing_up() -> None:
    async with run_worker(TakingEngine()) as worker:
        worker.consumer.laid.append({TP(FIRST.topic, n): [Record(n, 0)] for n in (3, 4)})
        await worker.app.topics.on_partitions_assigned({FIRST, TP(FIRST.topic, 4)})
        await worker.wait_until(lambda: worker.engine.taken)
        worker.lay(FIRST, 7)
        worker.rebalance(2)
        worker.engine.takes.set()
        await worker.wait_until(lambda: len(worker.engine.taken) > 1)
    assert worker.offsets() == [[0], [7]]


async def test_records_that_a_fetch_took_across_a_rebalance_are_put_back() -> None:
    async with run_worker(make_taking()) as worker:
        worker.consumer.on_fetch = lambda: setattr(worker.app, "consumer_generation_id", 2)
        worker.lay(FIRST, 5, 6)
        await worker.wait_until(lambda: worker.consumer.sought)
    assert worker.consumer.sought == [{FIRST: 5}]
    assert worker.engine.taken == []


async def test_offsets_that_begin_again_are_the_engines_matter() -> None:
    """Faust drops a message below its own read offset without a word, and nothing would be fetched again."""
    async with run_worker(make_taking()) as worker:
        await worker.consumer.seek(FIRST, 100)
        worker.lay(FIRST, 0)
        worker.lay(FIRST, 1)
        await worker.wait_until(lambda: len(worker.engine.taken) == 2)


async def test_faust_commits_nothing() -> None:
    """It records acks for topics that have them; the group's offsets are the engine's to tell."""
    async with run_worker(make_taking()) as worker:
        assert not any(agent.channel.acks for agent in worker.app.agents.values())
        worker.lay(FIRST, 0, 1)
        await worker.wait_until(lambda: len(worker.engine.read) > 1)
        await worker.consumer.commit()
        assert worker.consumer.committed == []
