"""The commit loop of one partition: gathers staged decisions for a while, then commits them together.

It waits as long as a commit takes, longer when this process is busy. A transaction costs this process about
1.4 ms of CPU and the broker more. With a fixed small linger a loaded broker gets more and smaller
transactions, each slower than the one before. With a wait as long as the last commits, their number halves
when they slow down. docs/performance.md has the measurements.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiokafka

from app.stream.engine.transaction import Batch
from app.stream.process import start_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.stream.engine.engine_settings import EngineSettings
    from app.stream.engine.partition import Partition
    from app.stream.engine.transaction import Transactor

BUSY_FROM = 0.6
BUSY_SPAN = 0.35
SMOOTHING = 0.3
COMMIT_SMOOTHING = 0.1


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
        return min(self._high, max(self._low + (self._high - self._low) * busy, self._commit))

    def observe(self, cpu_s: float, wall_s: float) -> None:
        """Take a reading of the process's CPU time and of the monotonic clock."""
        if self._cpu is not None and wall_s > self._wall:
            share = (cpu_s - self._cpu) / (wall_s - self._wall)
            self._usage += SMOOTHING * (share - self._usage)
        self._cpu, self._wall = cpu_s, wall_s

    def committed(self, duration_s: float) -> None:
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
        self._offsets_at = 0.0
        self._committed: dict[str, int] = {}
        self.changelog_offset: int | None = None
        self._task = start_task(self._run(), fail)

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
        """End the loop (idle after `close`) and the producer."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._transactor.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._gather()
            waiters, self._waiters = self._waiters, []
            entries, outputs = self._partition.take(open_=self._open)
            names = self._settings.real_names
            batch = Batch(
                entries,
                [(names[o.topic], o.partition, o.key, o.value, o.headers) for o in outputs],
                self._offsets(loop.time()),
            )
            began = loop.time()
            self.changelog_offset = await self._transactor.write(batch) or self.changelog_offset
            self._linger.committed(loop.time() - began)
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if self._moved():
                loop.call_later(self._settings.offsets_interval_s, self._partition.work.set)

    async def _gather(self) -> None:
        partition = self._partition
        await partition.work.wait()
        if not (self._waiters or partition.full.is_set()):
            try:
                async with asyncio.timeout(self._linger.seconds):
                    await partition.full.wait()
            except TimeoutError:
                return

    def _offsets(self, now: float) -> dict[aiokafka.TopicPartition, int]:
        """The group offsets to commit, from time to time, for lag monitors; only the partition's record
        counts."""
        if not self._draining and now - self._offsets_at < self._settings.offsets_interval_s:
            return {}
        self._offsets_at = now
        moved = self._moved()
        self._committed |= moved
        names = self._settings.real_names
        return {aiokafka.TopicPartition(names[t], self._partition.number): o for t, o in moved.items()}

    def _moved(self) -> dict[str, int]:
        return {t: o for t, o in self._partition.positions().items() if o and self._committed.get(t) != o}
