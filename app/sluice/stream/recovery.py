"""Faust's table recovery, in batches and over transactional changelogs (faust 0.15.3).

Three corrections, each measured in docs/decisions/0002-stream-engine.md:
changelog records go to the store in batches (recovery.py:772 takes them one by one through a queue);
commit markers at a changelog's end are never delivered, so the fetch position shows the end, not an offset;
the flow stays stopped until positions are set (recovery.py:649 resumes first and then clears the queues).
"""

from __future__ import annotations

import asyncio
from typing import Any

from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery, ServiceStopped

from sluice.stream.process import service_log


class TransactionalRecovery(Recovery):  # type: ignore[misc]
    """A recovery that ends when the read_committed position has passed the end of every changelog."""

    logger = service_log

    ends: dict[Any, int] | None = None

    async def on_rebalance(self, *args: Any, **kwargs: Any) -> None:
        self.ends = None
        # Faust clears it in its own queue's loop, every 5 s (recovery.py:832): still set since the last
        # recovery, it would end this one before a record was read, and partitions would open empty.
        self.signal_recovery_end.clear()
        await super().on_rebalance(*args, **kwargs)

    async def _seek_offsets(self, consumer: Any, tps: Any, offsets: Any, title: str) -> None:
        await super()._seek_offsets(consumer, tps, offsets, title)
        if title == "active":
            self.ends = dict(self.active_highwaters)

    def absorb(self, records: dict[Any, list[Any]]) -> None:
        """Apply fetched changelog records to the store; end the recovery when nothing is left to fetch."""
        store = self.app.sessions.data
        for tp, batch in records.items():
            if tp in self.active_tps:
                observed = self.active_offsets.get(tp)
                if observed is not None and batch[0].offset <= observed:  # a fetch from before the seek
                    batch = [record for record in batch if record.offset > observed]  # noqa: PLW2901
                if batch:
                    store.absorb(tp.partition, batch)
                    self.active_offsets[tp] = batch[-1].offset
        if self.ends is not None and self.app.consumer.flow_active:
            self._mark_caught_up(self.ends)
            if not self.need_recovery():
                self.signal_recovery_end.set()

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ASYNC109 - Faust's own
        """mode takes a time-out for a stop (services.py:793): then the worker would stay alive, hold its
        partitions and decide nothing."""
        try:
            await super()._wait(coro, timeout)
        except ServiceStopped:
            if not self._register_stop.is_set() and not self._crashed.is_set():
                self.app.fail(TimeoutError("recovery: the broker did not answer in time"))
            raise

    def _mark_caught_up(self, ends: dict[Any, int]) -> None:
        for tp, end in ends.items():
            position = self.app.consumer.fetch_position(tp) if tp in self.active_tps else None
            if position is not None and position > end:
                self.active_offsets[tp] = max(end, self.active_offsets[tp] or 0)

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        self.ends = None
        self.app.consumer.stop_flow()
        self.app.flow_control.suspend()
        await asyncio.sleep(0)
        await self.app.open_partitions(generation_id)
        await super().on_recovery_completed(generation_id)


class FencedTableManager(TableManager):  # type: ignore[misc]
    """Fences the assigned numbers before recovery looks at any state (manager.py:187)."""

    logger = service_log

    _recovery: TransactionalRecovery | None

    @property
    def recovery(self) -> TransactionalRecovery:
        if self._recovery is None:
            self._recovery = TransactionalRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Start without Faust's pause of a second (manager.py:140): table and agents are already declared."""
        await self._update_channels()
        await self.recovery.start()

    async def on_rebalance(
        self, assigned: set[Any], revoked: set[Any], newly_assigned: set[Any], generation_id: int = 0
    ) -> None:
        await self.app.fence_partitions(assigned)
        self._forget(revoked)
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        for tp, offset in self.app.list_written_offsets():
            if tp in self.recovery.active_tps and self.recovery.active_offsets.get(tp) is not None:
                self.recovery.active_offsets[tp] = max(offset, self.recovery.active_offsets[tp])

    def _forget(self, revoked: set[Any]) -> None:
        """Forget lost partitions here too: Faust does not when one rebalance overtakes another."""
        for tp in revoked:
            if tp.topic in self.changelog_topics:
                self.recovery.revoke(tp)
                self.app.sessions.data.drop(tp.partition)
