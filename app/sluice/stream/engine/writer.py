"""The commit loop of one partition: gathers staged decisions for a while, then commits them together.

While it gathers, the broker already adds the partition's logs to the transaction, so a short wait costs
nothing. What arrives during a commit goes into the next transaction, so a slow broker gets fewer and larger
ones. Only a process that is nearly at its limit waits longer, up to the upper bound: a transaction costs it
about 1.4 ms of CPU. docs/performance.md has the measurements.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import aiokafka

from sluice.stream.engine.observer import Commit
from sluice.stream.engine.transaction import Batch
from sluice.stream.process import start_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.stream.engine.engine_settings import EngineSettings
    from sluice.stream.engine.partition import Partition
    from sluice.stream.engine.transaction import Transactor

BUSY_FROM = 0.85
BUSY_SPAN = 0.1
SMOOTHING = 0.3
COMMIT_SMOOTHING = 0.1
SHARE = 0.25
"""Of a commit, what the broker takes to add partitions to a transaction."""


class Linger:
    """The linger in seconds, shared by the partitions of a process. Clocks are passed in, in seconds."""

    def __init__(self, low_s: float, high_s: float) -> None:
        self._low = low_s
        self._high = high_s
        self._usage = 0.0
        self._commit = 0.0
        self._cpu: float | None = None
        self._wall = 0.0

    @property
    def seconds(self) -> float:
        """The linger, between its two bounds."""
        busy = min(1.0, max(0.0, (self._usage - BUSY_FROM) / BUSY_SPAN))
        share = SHARE + (1 - SHARE) * busy
        return min(self._high, max(self._low + (self._high - self._low) * busy, self._commit * share))

    def observe(self, cpu_s: float, wall_s: float) -> None:
        """Take a reading of the process's CPU time and of the monotonic clock."""
        if self._cpu is not None and wall_s > self._wall:
            share = (cpu_s - self._cpu) / (wall_s - self._wall)
            self._usage += SMOOTHING * (share - self._usage)
        self._cpu, self._wall = cpu_s, wall_s

    def note_commit(self, duration_s: float) -> None:
        """Note that a transaction took this long."""
        self._commit += COMMIT_SMOOTHING * (duration_s - self._commit)


class Writer:
    """Commits what `partition` stages. A transaction's exception goes to `fail`, which ends the process."""

    def __init__(
        self,
        partition: Partition,
        transactor: Transactor,
        settings: EngineSettings,
        linger: Linger,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._partition = partition
        self._transactor = transactor
        self._settings = settings
        self._linger = linger
        self._open = True
        self._draining = False
        self._waiters: list[asyncio.Future[None]] = []
        self.positions: Mapping[str, int] = {}
        self.changelog_offset: int | None = None
        self._task: asyncio.Task[None] | None = start_task(self._run(), fail)

    async def commit(self) -> None:
        """Return when a transaction with everything staged so far, and the crash marker, has committed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(done)
        self._partition.work.set()
        self._partition.full.set()
        await done

    async def close(self) -> None:
        """Commit what is staged with the offsets, and the record closed: no crash happened here."""
        self._open = False
        self._draining = True
        await self.commit()

    async def stop(self) -> None:
        """End the loop (idle after `close`) and the producer.

        The task is let go: what it ended with refers to this writer, and only the collector, which runs
        rarely, would free the two.
        """
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._transactor.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._gather()
            waiters, self._waiters = self._waiters, []
            entries, outputs = self._partition.take(open_=self._open)
            positions = self._partition.positions()
            names = self._settings.real_names
            batch = Batch(
                entries,
                [(names[o.topic], o.partition, o.key, o.value, o.headers) for o in outputs],
                self._places(positions) if self._draining else {},
            )
            began = loop.time()
            self.changelog_offset = await self._transactor.write(batch) or self.changelog_offset
            self.positions = positions
            took_s = loop.time() - began
            self._linger.note_commit(took_s)
            committed = Commit(self._partition.taken, took_s, self._partition.now_ms())
            self._settings.observer.note_commit(committed)
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _gather(self) -> None:
        partition = self._partition
        await partition.work.wait()
        if self._waiters or partition.full.is_set():
            return
        names = self._settings.real_names
        await self._transactor.begin([names[topic] for topic in partition.list_staged_topics()])
        with suppress(TimeoutError):
            async with asyncio.timeout(self._linger.seconds):
                await partition.full.wait()

    def group_offsets(self) -> dict[aiokafka.TopicPartition, int]:
        """The offsets that the group may know: those of the last transaction that has committed."""
        return self._places(self.positions)

    def _places(self, positions: Mapping[str, int]) -> dict[aiokafka.TopicPartition, int]:
        names, number = self._settings.real_names, self._partition.number
        return {aiokafka.TopicPartition(names[topic], number): at for topic, at in positions.items() if at}
