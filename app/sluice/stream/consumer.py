"""Faust's consumer, read_committed, which passes whole fetched batches to the engine (faust 0.15.3).

Faust does membership, assignment, fetching and seeking. Its per-event path (channels, streams, acks) is not
used: it costs more than all the rest, and deserialising there loses the neighbours of a bad record.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka.errors import ConsumerStoppedError, IllegalStateError, KafkaError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service

from sluice.core.foundation.arrival import Arrival
from sluice.stream.process import Explained, service_log
from sluice_topics.agent_signature import header_in
from sluice_topics.headers import agent_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FETCH_MAX_WAIT_MS = 100
IDLE_FETCH_MAX_WAIT_MS = 1000
"""A fetch and its answer name every partition: most of an idle worker's CPU goes into that. But a partition
whose records are not taken yet is not part of a fetch, and waits until it ends."""
RECOVERY_POLL_S = 0.2
POLL_S = 0.1
IDLE_S = 0.01
WATCH_S = 1.0
TRACEPARENT = "traceparent"


class CommittedConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """Reads committed records only (aiokafka.py:568), without Faust's own transactions."""

    logger = service_log

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        return consumer

    def close(self) -> None:
        """Does nothing. Faust calls it from the app's thread at a rebalance while the worker stops, to close
        connections that this thread's loop reads (base.py:1849): uvloop then calls freed objects, and the
        process dies of SIGSEGV. This thread closes them itself when it is stopped, and leaves the group."""

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Faust's livelock warnings are about streams and commits that this worker does not use."""

    def verify_recovery_event_path(self, now: float, tp: Any) -> None:
        """Likewise."""


class BatchConsumer(driver.Consumer):  # type: ignore[misc]
    """Delivers fetched batches below the streams; commits nothing itself."""

    logger = service_log

    def _new_consumer_thread(self) -> CommittedConsumerThread:
        return CommittedConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _commit(self, offsets: Any) -> bool:
        del offsets  # Faust's; those of the engine come by `tell_group`
        return True

    async def tell_group(self, offsets: Mapping[Any, int]) -> None:
        """Commit the group's offsets. During a rebalance it commits nothing; while the broker is away it
        waits."""
        thread = self._thread
        commit = thread._consumer.commit(dict(offsets))
        with suppress(KafkaError):
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(commit, thread.thread_loop))

    def fetch_position(self, tp: Any) -> int | None:
        """The next offset that the consumer would return, after markers and aborted records; None if
        unassigned."""
        subscription = self._thread._consumer._subscription.subscription
        assignment = subscription.assignment if subscription else None
        state = assignment.state_value(tp) if assignment else None
        return None if state is None else state._position

    def _read_position(self, topic: str, number: int) -> int | None:
        """The read position. Call it between two fetches, when everything fetched has been passed on."""
        return self.fetch_position(TP(topic, number))

    def known_end(self, tp: Any) -> int | None:
        """The end of an assigned partition according to the last fetch; None before the first fetch."""
        subscription = self._thread._consumer._subscription.subscription
        assignment = subscription.assignment if subscription else None
        state = assignment.state_value(tp) if assignment else None
        return None if state is None else state.highwater

    async def _wait_next_records(self, timeout: float) -> tuple[dict[Any, Any], set[Any]]:
        """Like Faust's (consumer.py:776), but waiting for the first active partition takes less than a
        second."""
        if not self.flow_active:
            await self.wait(self.can_resume_flow)
        active = self._get_active_partitions()
        if active:
            await self._getmany(active, timeout)
        else:
            await self.sleep(IDLE_S)
        return {}, active

    async def _getmany(self, active_partitions: set[Any] | None, timeout: float) -> dict[Any, Any]:
        """Faust's fetcher calls it in a loop (consumer.py:700). It always returns nothing to dispatch.

        An exception here is a fault of I/O or of the engine: the worker stops, its partitions stay open.
        """
        try:
            await self._fetch(set(active_partitions or ()), timeout)
        except ConsumerStoppedError:
            raise
        except Exception as fault:  # noqa: BLE001 - Faust would shut down in good order, as if all were well
            self.app.fail(fault)
        return {}

    async def _fetch(self, active: set[Any], timeout: float) -> None:
        if self.app.in_recovery:
            self._keep_fetches(FETCH_MAX_WAIT_MS)
            records = await super()._getmany(active, min(timeout, RECOVERY_POLL_S))
            self.app.tables.recovery.absorb(records)
            return
        wanted = self._wanted(active)
        if not wanted:
            self._keep_fetches(FETCH_MAX_WAIT_MS)
            await asyncio.sleep(IDLE_S)
            return
        generation = self.app.consumer_generation_id
        every = len(wanted) == len(active)
        records = await super()._getmany(wanted, timeout if every else POLL_S)
        self._keep_fetches(FETCH_MAX_WAIT_MS if records or not every else IDLE_FETCH_MAX_WAIT_MS)
        if self.flow_active and generation == self.app.consumer_generation_id:
            await self._deliver(generation, records)
            self.app.engine.note_read(generation, self._read_position)
        elif records:
            await self._put_back(records)

    def _keep_fetches(self, max_wait_ms: int) -> None:
        """How long the broker may keep the next fetches that find nothing."""
        self._thread._consumer._fetcher._fetch_max_wait_ms = max_wait_ms

    async def _put_back(self, records: dict[Any, list[Any]]) -> None:
        """Put records back after a rebalance during a fetch. The fetch may have taken records of the new
        assignment, and Faust's seek skips a partition without a committed offset: without this its inputs
        would be lost."""
        assigned = self.assignment()
        with suppress(IllegalStateError):
            await self.seek_wait({tp: batch[0].offset for tp, batch in records.items() if tp in assigned})

    def _wanted(self, active: set[Any]) -> set[Any]:
        inputs = {tp for tp in active if tp.topic in self.app.input_names}
        numbers = self.app.engine.wanted({tp.partition for tp in inputs})
        return {tp for tp in inputs if tp.partition in numbers}

    async def _deliver(self, generation: int, records: dict[Any, list[Any]]) -> None:
        names = self.app.input_names
        batches = (list(arrivals(names[tp.topic], batch)) for tp, batch in records.items())
        await self.app.engine.deliver(generation, batches)

    @Service.task  # type: ignore[untyped-decorator]
    async def _watch_aiokafka(self) -> None:
        """Check aiokafka's background tasks. Faust calls the fetcher directly, without aiokafka's own
        checks, so a dead task would stay unnoticed."""
        while not self.should_stop:
            await self.sleep(WATCH_S)
            consumer = self._thread._consumer
            if consumer is None or self.should_stop or self.app.should_stop:
                continue
            fetching, coordinator = consumer._fetcher._fetch_task, consumer._coordinator
            dead = fetching.done() or coordinator._coordination_task.done()
            if dead or coordinator._pending_exception is not None:
                self.app.fail(Explained("the consumer's background task ended"))


def arrivals(topic: str, records: Sequence[Any]) -> Iterator[Arrival]:
    """Consumed records as the core sees them; `topic` is the base name."""
    for record in records:
        yield Arrival(
            topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            _traceparent(record.headers),
            signature_header=header_in(record.headers),
            agent_header=agent_in(record.headers),
        )


def _traceparent(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    for name, value in headers:
        if name == TRACEPARENT and value is not None:
            return value.decode("ascii", "replace")
    return None
