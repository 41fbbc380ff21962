"""A compacted topic on a broker (source histories, resolved references), read to its end again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka import TopicPartition

from app.adapters.kafka_consumers import POLL_MS, Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_TAKEN_AT_ONCE = 500
"""Records between two looks at the loop by whoever takes them: 15 to 30 ms."""


class KafkaCompacted:
    """Reads every partition, as committed. Connects with the first call. Raises KafkaError from each."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._parts = [TopicPartition(topic, number) for number in range(partitions)]
        self._connection = Connection(bootstrap_servers, "read_committed", self._parts)

    async def to_end(self) -> AsyncIterator[list[bytes]]:
        """The values of the records up to the topic's end as of now that no earlier call gave, a batch at a
        time: the topic is never held whole. One that is given up loses none: the next goes on behind it."""
        consumer = await self._connection.consumer()
        ends = await consumer.end_offsets(self._parts)
        while [part for part, end in ends.items() if await consumer.position(part) < end]:
            batch = await consumer.getmany(timeout_ms=POLL_MS, max_records=_TAKEN_AT_ONCE)
            yield [one.value for messages in batch.values() for one in messages if one.value]

    async def close(self) -> None:
        """Give up the connection."""
        await self._connection.close()
