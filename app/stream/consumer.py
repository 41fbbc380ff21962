"""Faust's consumer, read_committed, handing whole fetched batches to the engine (faust 0.15.3).

Faust keeps membership, assignment, fetching and seeking. The per-event path (channels, streams, acks) is
left out: it costs more than all the rest, and deserialising there loses the neighbours of a bad record.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from faust.transport.drivers import aiokafka as driver

from app.core.arrival import Arrival
from app.stream.intake import OffsetGap
from app.stream.service_log import service_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FETCH_MAX_WAIT_MS = 100
RECOVERY_POLL_S = 0.2
POLL_S = 0.1
TRACEPARENT = "traceparent"


class CommittedConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """Reads committed records only (aiokafka.py:568), without Faust's own transactions."""

    logger = service_log

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        return consumer

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
        del offsets  # they are committed by the partitions' transactions only
        return True

    def fetch_position(self, tp: Any) -> int | None:
        """The next offset that would be handed out, past markers and aborted records; None if unassigned."""
        subscription = self._thread._consumer._subscription.subscription
        assignment = subscription.assignment if subscription else None
        state = assignment.state_value(tp) if assignment else None
        return None if state is None else state._position

    async def _getmany(self, active_partitions: set[Any] | None, timeout: float) -> dict[Any, Any]:
        """Called by Faust's fetcher in a loop (consumer.py:700). Always returns nothing to dispatch."""
        active = set(active_partitions or ())
        if self.app.in_recovery:
            self.app.tables.recovery.absorb(await super()._getmany(active, min(timeout, RECOVERY_POLL_S)))
            return {}
        wanted = self._wanted(active)
        if not wanted:
            await asyncio.sleep(POLL_S / 10)
            return {}
        generation = self.app.consumer_generation_id
        records = await super()._getmany(wanted, timeout if len(wanted) == len(active) else POLL_S)
        if records and self.flow_active and generation == self.app.consumer_generation_id:
            await self._deliver(generation, records)
        return {}

    def _wanted(self, active: set[Any]) -> set[Any]:
        inputs = {tp for tp in active if tp.topic in self.app.input_names}
        numbers = self.app.engine.wanted({tp.partition for tp in inputs})
        return {tp for tp in inputs if tp.partition in numbers}

    async def _deliver(self, generation: int, records: dict[Any, list[Any]]) -> None:
        names = self.app.input_names
        batches = (list(arrivals(names[tp.topic], batch)) for tp, batch in records.items())
        try:
            await self.app.engine.deliver(generation, batches)
        except OffsetGap as gap:
            self.app.fail(gap)


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
        )


def _traceparent(headers: Sequence[tuple[str, bytes]]) -> str | None:
    for name, value in headers:
        if name == TRACEPARENT:
            return value.decode("ascii", "replace")
    return None
