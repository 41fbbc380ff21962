"""A compacted topic on a broker (source histories, resolved references), read to its end again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka import TopicPartition

from app.adapters.kafka_consumers import POLL_MS, Connection

if TYPE_CHECKING:
    from collections.abc import Sequence


class KafkaCompacted:
    """Reads every partition, as committed. Connects with the first call. Raises KafkaError from each."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._parts = [TopicPartition(topic, number) for number in range(partitions)]
        self._connection = Connection(bootstrap_servers, "read_committed", self._parts)
        self._read: list[bytes] = []

    async def to_end(self) -> Sequence[bytes]:
        """The values of the records up to the topic's end as of now that no earlier call gave.

        A call that is cancelled loses none: the next one gives them.
        """
        consumer = await self._connection.consumer()
        ends = await consumer.end_offsets(self._parts)
        while [part for part, end in ends.items() if await consumer.position(part) < end]:
            batch = await consumer.getmany(timeout_ms=POLL_MS)
            self._read += [one.value for messages in batch.values() for one in messages if one.value]
        found, self._read = self._read, []
        return found

    async def close(self) -> None:
        """Give up the connection."""
        await self._connection.close()
