"""The commit loop of one partition: gathers staged decisions for a while, then commits them together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiokafka

from app.stream.engine.transaction import Batch
from app.stream.process.background import background

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.stream.engine.engine_settings import EngineSettings
    from app.stream.engine.linger import Linger
    from app.stream.engine.partition import Partition
    from app.stream.engine.transaction import Transactor


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
        self._task = background(self._run(), fail)

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
        """Group offsets ride along now and then, for lag monitors; the partition's record is what counts."""
        if not self._draining and now - self._offsets_at < self._settings.offsets_interval_s:
            return {}
        self._offsets_at = now
        moved = self._moved()
        self._committed |= moved
        names = self._settings.real_names
        return {aiokafka.TopicPartition(names[t], self._partition.number): o for t, o in moved.items()}

    def _moved(self) -> dict[str, int]:
        return {t: o for t, o in self._partition.positions().items() if o and self._committed.get(t) != o}
