"""The stream engine: which partitions this worker writes, and how inputs reach them.

Life of an assignment: `assign` fences each number with its transactional producer, Faust recovers the table,
`open` takes up the partitions' records, `deliver` feeds inputs, `drain` commits what is staged and closes.
Any fault of the broker or of a port calls `fail`, which ends the process: the next start resumes from what
has committed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aiokafka.errors import KafkaError

from sluice.core.trust.policy_contents import NOTHING
from sluice.stream.engine.evaluation import WorkerContext
from sluice.stream.engine.observer import EngineState
from sluice.stream.engine.owned import Owned
from sluice.stream.engine.partition import CONTROL_PARTITION, Partition
from sluice.stream.engine.takeover import PolicyLost, refuse_if_behind, refuse_if_newer
from sluice.stream.engine.writer import Linger
from sluice.stream.process import start_task
from sluice_topics.catalog import REVIEWS

if TYPE_CHECKING:
    from aiokafka import TopicPartition

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.trust.policy_contents import EditionDifference, PolicyContents
    from sluice.core.trust.refused import Refused
    from sluice.stream.engine.engine_settings import EngineSettings
    from sluice.stream.engine.evaluation import Ports
    from sluice.stream.engine.intake import FetchedBatch
    from sluice.stream.engine.owned import AskEnd, FindEnd, ReadPosition
    from sluice.stream.engine.takeover import Recovered, TellGroup
    from sluice.stream.engine.transaction import Transactor
    from sluice.stream.feeds.policy_feed import PolicyFeed
    from sluice.stream.feeds.shared_feeds import ProvenanceFeed, SourceFeed, ThreadRunner, UseFeed

log = logging.getLogger(__name__)

NewTransactor = Callable[[int], "Transactor"]


@dataclass(frozen=True, slots=True)
class Feeds:
    """State that all decisions use besides their partition's state, kept up to date from the broker.

    `resolver` resolves references in the background; without it only other workers' records count.
    """

    policy: PolicyFeed
    sources: SourceFeed
    provenance: ProvenanceFeed
    uses: UseFeed
    resolver: ThreadRunner | None = None


class Clock(Protocol):
    """The source of the shell's times."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def monotonic_s(self) -> float:
        """Seconds of a clock that only runs forward."""

    def cpu_s(self) -> float:
        """CPU seconds of this process."""


class Engine:
    """The partitions that this worker owns now."""

    def __init__(
        self,
        feeds: Feeds,
        ports: Ports,
        settings: EngineSettings,
        new_transactor: NewTransactor,
        clock: Clock,
        fail: Callable[[BaseException], None],
    ) -> None:
        self.settings = settings
        self._context = WorkerContext(
            feeds.policy.first,
            ports,
            settings,
            feeds.sources.histories,
            feeds.provenance.recorded,
            feeds.uses.uses,
            clock.wall_ms,
            feeds.policy.wait_until_current,
        )
        self._feeds = feeds
        self._refused: Sequence[Refused] = ()
        self._contents = NOTHING
        self._new_transactor = new_transactor
        self._clock = clock
        self._fail = fail
        self._linger = Linger(settings.linger_low_s, settings.linger_high_s)
        self._alone = asyncio.Lock()
        self._draining = asyncio.Lock()
        self._fenced: dict[int, Transactor] = {}
        self._owned: dict[int, Owned] = {}
        self._generation: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._written: dict[int, int] = {}
        self._find_end: FindEnd = lambda *_: None

    @property
    def numbers(self) -> list[int]:
        """The partition numbers that are open here."""
        return sorted(self._owned)

    async def assign(self, numbers: Iterable[int]) -> None:
        """Fence these numbers before any state is read: from here on no other worker can commit to them.

        The first time it makes the ports ready before the fence: this does not need the fence, and meanwhile
        a former owner may commit what it has staged. The wait for a slow port is short. It reads the policy
        to its end after the fence: until then a former owner may decide under a newer policy, and afterwards
        no decision may use an older one.

        Nothing is decided during a rebalance, and each leaves connections and fetched batches behind that
        refer to each other, so the collector goes through everything here: by its thresholds a worker of a
        day has not done so once.
        """
        await self.drain()
        gc.collect()
        await self._context.ports.start(self.settings.port_patience_s)
        wanted = sorted(set(numbers))
        started = self._clock.monotonic_s()
        self._fenced = {number: self._new_transactor(number) for number in wanted}
        await asyncio.gather(*(transactor.start() for transactor in self._fenced.values()))
        log.info("fenced %d partitions in %.0f ms", len(wanted), 1e3 * (self._clock.monotonic_s() - started))
        self.settings.observer.note_fenced(len(wanted))
        feeds = self._feeds
        await asyncio.gather(
            feeds.policy.catch_up(self.use),
            feeds.sources.catch_up(),
            feeds.provenance.catch_up(),
            feeds.uses.catch_up(),
        )

    async def open(self, generation: int, recovered: Recovered) -> None:
        """Take over the recovered partitions and mark them open, durably, before an input is read.

        A revocation in the meantime drains them, and then nothing is left to open. Raises StateBehind,
        StateTooNew and PolicyLost.
        """
        fenced, owned = self._fenced, self._owned
        partitions = [self._recover(number, recovered) for number in fenced]
        lost = await self._find_lost_policy(partitions)
        if self._fenced is not fenced:
            return
        if lost:
            with suppress(KafkaError, TimeoutError):  # the loss is what ends the worker
                await self.drain()
            raise PolicyLost(lost)
        self._fenced = {}
        for partition in partitions:
            partition.record_policy(self._contents, starts=True)
            transactor = fenced[partition.number]
            owned[partition.number] = Owned(
                partition, transactor, self.settings, self._linger, self._fail, self._alone
            )
        await asyncio.gather(*(each.open() for each in owned.values()))
        if self._owned is not owned:
            return
        self._note_refused()
        self._find_end = recovered.find_end
        self._generation = generation
        self._tasks = [start_task(run, self._fail) for run in self._loops(recovered)]
        if self._feeds.resolver is not None:
            self._feeds.resolver.start()
        log.info("open: partitions %s", self.numbers, extra={"partitions": self.numbers})

    def _recover(self, number: int, recovered: Recovered) -> Partition:
        """The partition with its state. Raises StateBehind and StateTooNew."""
        ends, table = recovered.ends.get(number, {}), recovered.store.partition(number)
        refuse_if_newer(number, table)
        partition = Partition(number, self._context, table, ends, self._fail)
        refuse_if_behind(partition, recovered.committed.get(number, {}))
        return partition

    async def _find_lost_policy(self, partitions: Sequence[Partition]) -> list[EditionDifference]:
        """What the policy that was read has less than what a partition's former owner had in force. That
        owner may have read newer records than `assign` did here: so read once more first."""
        if any(partition.policy.find_loss(self._contents) for partition in partitions):
            await self._feeds.policy.catch_up(self.use)
        return sorted(
            {entry for partition in partitions for entry in partition.policy.find_loss(self._contents)}
        )

    def _loops(self, recovered: Recovered) -> Iterable[Coroutine[None, None, None]]:
        """The loops that run while partitions are open."""
        yield self._observe()
        yield self._report()
        yield self._timers(recovered.ask_end)
        yield self._tell(recovered.tell_group)
        yield self._feeds.policy.follow(self.use)
        yield self._feeds.sources.follow()
        yield self._feeds.provenance.follow()
        yield self._feeds.uses.follow()

    def use(self, point: DecisionPoint, refused: Sequence[Refused], contents: PolicyContents) -> None:
        """Decide with this point from here on; decisions that have begun keep their point.

        For the ledger: `refused`, every control record that does not count, and `contents`, what is in force.
        Contents that are less than before stop the worker.
        """
        lost = {entry for owned in self._owned.values() for entry in owned.find_policy_loss(contents)}
        if lost:
            self._fail(PolicyLost(sorted(lost)))
            return
        self._context.point = point
        self._refused, self._contents = refused, contents
        self.settings.observer.note_policy(contents, len(refused))
        for owned in self._owned.values():
            owned.record_policy(contents)
        self._note_refused()

    def _note_refused(self) -> None:
        keeper = self._owned.get(CONTROL_PARTITION)
        if keeper is not None:
            keeper.note(self._refused)

    def select_wanted(self, numbers: Iterable[int]) -> set[int]:
        """The numbers that can take more inputs now."""
        return {n for n in numbers if (owned := self._owned.get(n)) is not None and owned.has_room()}

    async def deliver(self, batch: FetchedBatch) -> None:
        """Feed a fetched batch; ignore what is left of it once its generation is past.

        It waits while the policy in force is not current, and yields to the loop every few milliseconds, so
        that commits go on. Raises OffsetGap.
        """
        pause_at = self._clock.monotonic_s() + self.settings.slice_s
        for start in range(0, len(batch.input_records), self.settings.chunk):
            await self._feeds.policy.wait_until_current(lambda: batch.generation == self._generation)
            if batch.generation != self._generation:
                break
            chunk = batch.input_records[start : start + self.settings.chunk]
            self._owned[chunk[0].partition].offer(chunk)
            if self._clock.monotonic_s() >= pause_at:
                await asyncio.sleep(0)
                pause_at = self._clock.monotonic_s() + self.settings.slice_s
        batch.delivered.set()

    def note_read(self, generation: int, read: ReadPosition) -> None:
        """Note that everything up to these positions has been delivered; ignore a past generation."""
        if generation == self._generation:
            for owned in self._owned.values():
                owned.note_read(read)

    async def drain(self) -> None:
        """Stop intake, drop waiting inputs (they changed nothing), commit staged decisions, close the
        records.

        A stop during a revocation has nothing left to close, but still waits until the revocation is done.
        """
        self._generation = None
        self._feeds.policy.release()
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        owned, self._owned = self._owned, {}
        fenced, self._fenced = self._fenced, {}
        async with asyncio.timeout(self.settings.close_timeout_s), self._draining:
            await asyncio.gather(*(each.close() for each in owned.values()))
            self._written |= {n: o for n, each in owned.items() if (o := each.changelog_offset) is not None}
            await asyncio.gather(*(transactor.stop() for transactor in fenced.values()))
        self._note_state()

    async def close(self) -> None:
        """Close every connection except the transactors', which `drain` has stopped. The worker ends."""
        feeds = self._feeds
        if feeds.resolver is not None:
            await feeds.resolver.close()
        await asyncio.gather(
            feeds.policy.close(),
            feeds.sources.close(),
            feeds.provenance.close(),
            feeds.uses.close(),
            self._context.ports.close(),
        )

    def changelog_offsets(self) -> dict[int, int]:
        """By number, the last changelog offset that this worker wrote: memory has everything up to it."""
        return dict(self._written)

    async def _observe(self) -> None:
        while True:
            self._linger.observe(self._clock.cpu_s(), self._clock.monotonic_s())
            await asyncio.sleep(0.1)

    async def _report(self) -> None:
        while True:
            self._note_state()
            await asyncio.sleep(self.settings.report_s)

    def _note_state(self) -> None:
        """Tell the observer what there is now."""
        lag_s = self._feeds.policy.measure_lag()
        read_ms = None if lag_s is None else self._clock.wall_ms() - int(lag_s * 1000)
        state = EngineState(control_read_ms=read_ms)
        for owned in self._owned.values():
            state = owned.add_to(state, self._find_end)
        self.settings.observer.note_state(state)

    async def _tell(self, tell: TellGroup) -> None:
        """Tell the group how far the partitions are, from time to time, for lag monitors.

        Only the partitions' records count. So this is not part of their transactions, and it never tells more
        than has committed.
        """
        reported: dict[TopicPartition, int] = {}
        while True:
            await asyncio.sleep(self.settings.offsets_interval_s)
            offsets = {tp: at for owned in self._owned.values() for tp, at in owned.group_offsets().items()}
            moved = {tp: at for tp, at in offsets.items() if reported.get(tp) != at}
            if moved:
                await tell(moved)
                reported = offsets

    async def _timers(self, ask_end: AskEnd) -> None:
        """Let time act, under a current policy. What a review can still end waits for every review that has
        arrived, as far as the broker says when it is asked: the end that the last fetch brought is older, and
        after a change of leader much older."""
        while True:
            await asyncio.sleep(self.settings.timer_interval_s)
            await self._feeds.policy.wait_until_current()
            for owned in list(self._owned.values()):
                owned.tick(self._clock.wall_ms())
                await asyncio.sleep(0)
            as_of_ms = self._clock.wall_ms()
            due = {n: owned for n, owned in self._owned.items() if owned.waits_for_reviews(as_of_ms)}
            ends = await asyncio.gather(*(ask_end(REVIEWS, number) for number in due))
            await self._feeds.policy.wait_until_current()
            for owned, end in zip(due.values(), ends, strict=True):
                if end is not None:
                    owned.expire_held(as_of_ms, end)
                    await asyncio.sleep(0)
