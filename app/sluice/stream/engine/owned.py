"""One open partition with its writer. `offer` takes inputs; suspects of a crash run one group at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.stream.engine.partition import TRANSACTIONAL
from sluice.stream.engine.writer import Writer
from sluice.stream.process import start_task
from sluice_topics.catalog import REVIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aiokafka import TopicPartition

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.trust.policy_contents import EditionDifference, PolicyContents
    from sluice.core.trust.refused import Refused
    from sluice.stream.engine.engine_settings import EngineSettings
    from sluice.stream.engine.observer import EngineState
    from sluice.stream.engine.partition import Partition
    from sluice.stream.engine.transaction import Transactor
    from sluice.stream.engine.writer import Linger


log = logging.getLogger(__name__)

ReadPosition = Callable[[str, int], int | None]
"""By topic name on the broker and partition number, the next offset that the consumer returns; None:
unknown."""
FindEnd = Callable[[str, int], int | None]
"""By an input topic's base name and partition number, its end as of the last fetch; None: unknown."""
AskEnd = Callable[[str, int], Awaitable[int | None]]
"""By the same, its end as the broker gives it now; None: it gave none in time."""


class Owned:
    """A partition from `open` to `close`."""

    def __init__(
        self,
        partition: Partition,
        transactor: Transactor,
        settings: EngineSettings,
        linger: Linger,
        fail: Callable[[BaseException], None],
        alone: asyncio.Lock,
    ) -> None:
        """`alone` is one lock for all partitions of the process: its holder tries a single input."""
        self._alone = alone
        self._partition = partition
        self._settings = settings
        self._fail = fail
        self._waiting: deque[InputRecord] = deque()
        self._read: dict[str, int | None] = {}
        self._arrived = asyncio.Event()
        self._probe: asyncio.Task[None] | None = None
        self._writer = Writer(partition, transactor, settings, linger, fail)

    @property
    def changelog_offset(self) -> int | None:
        """The last changelog offset that this worker wrote: the table in memory has everything up to it."""
        return self._writer.changelog_offset

    def add_to(self, state: EngineState, find_end: FindEnd) -> EngineState:
        """The state of the worker with this partition's. `find_end`: of a topic here, None if unknown."""
        partition = self._partition
        lag = dict(state.lag)
        for topic, intake in partition.intakes.items():
            end = None if topic in TRANSACTIONAL else find_end(topic, partition.number)
            if end is not None:
                lag[topic] = lag.get(topic, 0) + max(0, end - intake.next) + len(intake.pending)
        opened = [
            opened_ms
            for opened_ms in (state.oldest_escalation_ms, partition.book.oldest_escalation_ms())
            if opened_ms
        ]
        return replace(
            state,
            partitions=state.partitions + 1,
            in_flight=state.in_flight + partition.in_flight,
            lag=lag,
            entries=state.entries + partition.entries,
            state_bytes=state.state_bytes + partition.sessions.bytes,
            quarantined=state.quarantined + len(partition.book),
            escalations=state.escalations + len(partition.book.open),
            oldest_escalation_ms=min(opened, default=None),
        )

    def group_offsets(self) -> dict[TopicPartition, int]:
        """The offsets that the group may know: those of the last transaction that has committed."""
        return self._writer.group_offsets()

    async def open(self) -> None:
        """Commit the open marker; from then on the next owner sees a crash."""
        if not self._calm():
            self._probe = start_task(self._try_suspects(), self._fail)
        await self._writer.commit()

    def has_room(self) -> bool:
        """Whether more inputs may be fetched."""
        waiting = self._partition.in_flight
        return (
            waiting < self._settings.max_in_flight and self._partition.staged < 2 * self._settings.max_batch
        )

    def offer(self, chunk: Sequence[InputRecord]) -> None:
        """Decide delivered inputs of one topic, except those already decided. Raises OffsetGap."""
        intake = self._partition.intakes[chunk[0].topic]
        gaps = intake.gaps
        admitted = [input_record for input_record in chunk if intake.admit(input_record.offset)]
        if intake.gaps > gaps and intake.topic not in TRANSACTIONAL:
            log.warning("%s: offsets were skipped up to %d", intake.topic, chunk[-1].offset)
        if self._probe is None:
            self._partition.start(admitted)
        else:
            self._waiting.extend(admitted)
            self._arrived.set()

    def note_read(self, read: ReadPosition) -> None:
        """Note the consumer's position; everything before it was offered. Suspects need it of all topics,
        timers of the reviews."""
        names, number = self._settings.real_names, self._partition.number
        topics = (REVIEWS,) if self._probe is None else self._partition.intakes
        self._read = {topic: read(names[topic], number) for topic in topics}
        if self._probe is not None:
            self._arrived.set()

    def tick(self, now_ms: int) -> None:
        """Run the sessions' timers, except while suspects are tried: their states must not change between
        marker and input."""
        if self._probe is None:
            self._partition.tick(now_ms)

    def waits_for_reviews(self, now_ms: int) -> bool:
        """Whether the time of a quarantined memory or an open escalation has come, and timers run."""
        due_ms = self._partition.book.next_due_ms()
        return self._probe is None and due_ms is not None and due_ms <= now_ms

    def expire_held(self, as_of_ms: int, reviews_end: int) -> None:
        """Let time act on those, as far as every review is decided that had arrived at `as_of_ms`."""
        if self._probe is None:
            self._partition.expire_held(as_of_ms, reviews_end, self._read.get(REVIEWS))

    def note(self, refused: Iterable[Refused]) -> None:
        """Enter refused control records into the ledger."""
        self._partition.note(refused)

    def find_policy_loss(self, contents: PolicyContents) -> tuple[EditionDifference, ...]:
        """What these contents have less than those in force, and nobody has accepted."""
        return self._partition.policy.find_loss(contents)

    def record_policy(self, contents: PolicyContents) -> None:
        """Enter into the ledger what is in force from now on."""
        self._partition.record_policy(contents, starts=False)

    async def close(self) -> None:
        """Drop waiting inputs, commit, mark the partition closed, stop the producer; let go of the state."""
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.cancel()
            await asyncio.wait([probe])
        await self._partition.lanes.cancel()
        await self._writer.close()
        await self._writer.stop()

    def _calm(self) -> bool:
        intakes = self._partition.intakes.items()
        return self._partition.guard.calm({t: intake.find_passed(self._read.get(t)) for t, intake in intakes})

    async def _try_suspects(self) -> None:
        while await self._some_held():
            group = self._next_group()
            if self._partition.guard.is_single(group[0].topic, group[0].offset):
                await self._try_alone(group)
            else:
                await self._try(group)
        self._partition.guard.clear()
        await self._writer.commit()
        await self._partition.wait_for_policy()
        self._probe = None
        waiting, self._waiting = self._waiting, deque()
        self._partition.start(waiting)

    async def _try(self, group: list[InputRecord]) -> None:
        self._partition.guard.announce(group[0].topic, group[0].offset, group[-1].offset + 1)
        await self._writer.commit()
        await self._partition.wait_for_policy()
        for input_record in group:
            self._start(input_record)
        await self._partition.quiet()

    async def _try_alone(self, group: list[InputRecord]) -> None:
        """Try one input alone: a crash now is caused by it, because no other partition has a single one in
        flight or an undecided trial.

        Otherwise the third crash would deny a harmless input in each of the worker's partitions.
        """
        async with self._alone:
            await self._try(group)
            self._partition.guard.acquit()
            await self._writer.commit()

    def _start(self, input_record: InputRecord) -> None:
        if self._partition.guard.is_condemned(input_record.topic, input_record.offset):
            self._partition.refuse(input_record)
        else:
            self._partition.start([input_record])

    async def _some_held(self) -> bool:
        """Wait for suspects; False when all are done."""
        while not (calm := self._calm()) and not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return not calm

    def _next_group(self) -> list[InputRecord]:
        group = [self._waiting.popleft()]
        size = self._partition.guard.size_from(group[0].topic, group[0].offset)
        while self._waiting and len(group) < size and self._follows(group[-1], self._waiting[0], size):
            group.append(self._waiting.popleft())
        return group

    def _follows(self, last: InputRecord, input_record: InputRecord, size: int) -> bool:
        """Whether an input continues the trial (same topic, same treatment): a trial is one range of
        offsets."""
        same = input_record.topic == last.topic
        return same and self._partition.guard.size_from(input_record.topic, input_record.offset) == size
