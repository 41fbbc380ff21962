"""Consumers that ports keep for their questions: connected once, and kept even if a caller stops waiting.

What one asks for is read as committed, but ends and times are asked of a `read_uncommitted` consumer: see
`kafka_read`. Beside an open transaction the stable offset lies below what was committed already.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from sluice.client.kafka_connection import build_client_arguments
from sluice.client.kafka_reading import Connection, read_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.kafka_reading import Isolation

_TAKEN_AT_ONCE = 500
"""How many records a caller takes before it lets the event loop run: 15 to 30 ms."""


def make_producer(cluster: KafkaCluster, **more: Any) -> AIOKafkaProducer:
    """An idempotent producer, not connected. `more`: aiokafka's arguments, such as a transactional id."""
    return AIOKafkaProducer(**build_client_arguments(cluster), enable_idempotence=True, **more)


class Pool:
    """Some connections, each for one question at a time. The one used last is taken first, so that no more
    connect than are needed at once."""

    def __init__(self, size: int, cluster: KafkaCluster, isolation: Isolation, **more: Any) -> None:
        """`more`: see Connection."""
        self._all = [Connection(cluster, isolation, **more) for _ in range(size)]
        self._free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for connection in self._all:
            self._free.put_nowait(connection)

    @asynccontextmanager
    async def borrow_consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer for the block alone. Raises KafkaError; one out of the block closes the connection."""
        connection = await self._free.get()
        try:
            yield await connection.connect()
        except KafkaError:
            await connection.close()
            raise
        finally:
            self._free.put_nowait(connection)

    async def close(self) -> None:
        """Give up every connection."""
        await asyncio.gather(*(connection.close() for connection in self._all))


async def read_batches_since(
    consumer: AIOKafkaConsumer, asking: AIOKafkaConsumer, part: TopicPartition, since_ms: int
) -> AsyncIterator[list[Any]]:
    """Messages from the first of that time on, up to the end as of now; `asking` reads uncommitted.

    A transaction that is open at the end is waited for. Raises KafkaError.
    """
    start = (await asking.offsets_for_times({part: since_ms}))[part]
    end = (await asking.end_offsets([part]))[part]
    if start is None:
        return
    consumer.assign([part])
    consumer.seek(part, start.offset)
    async for batch in read_to(consumer, {part: end}):
        yield batch


class KafkaCompacted:
    """Reads every partition, as committed. Connects with the first call. Raises KafkaError from each."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int) -> None:
        self._parts = [TopicPartition(topic, number) for number in range(partitions)]
        self._connection = Connection(cluster, "read_committed", self._parts)

    async def to_end(self) -> AsyncIterator[list[bytes]]:
        """The values of the records up to the topic's end as of now that no earlier call gave, a batch at a
        time: the topic is never held whole. One that is given up loses none: the next goes on behind it."""
        consumer = await self._connection.connect()
        ends = await consumer.end_offsets(self._parts)
        async for batch in read_to(consumer, ends, _TAKEN_AT_ONCE):
            yield [message.value for message in batch if message.value]

    async def close(self) -> None:
        """Give up the connection."""
        await self._connection.close()
