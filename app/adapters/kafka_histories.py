"""The compacted topic of source histories on a broker, read on to its end again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLL_MS = 100


class KafkaHistories:
    """Reads every partition, as committed. Connects with the first call. Raises KafkaError from each."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._servers = bootstrap_servers
        self._parts = [TopicPartition(topic, number) for number in range(partitions)]
        self._consumer: AIOKafkaConsumer | None = None
        self._read: list[bytes] = []

    async def to_end(self) -> Sequence[bytes]:
        """The values of the records up to the topic's end as of now that no earlier call gave.

        A call that is cancelled loses none: the next one gives them.
        """
        consumer = await self._connected()
        ends = await consumer.end_offsets(self._parts)
        while [part for part, end in ends.items() if await consumer.position(part) < end]:
            batch = await consumer.getmany(timeout_ms=_POLL_MS)
            self._read += [one.value for messages in batch.values() for one in messages if one.value]
        found, self._read = self._read, []
        return found

    async def close(self) -> None:
        """Give up the connection."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def _connected(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._servers,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=_POLL_MS,
            )
            try:
                await consumer.start()
            except KafkaError:
                await consumer.stop()
                raise
            consumer.assign(self._parts)
            await consumer.seek_to_beginning(*self._parts)
            self._consumer = consumer
        return self._consumer
