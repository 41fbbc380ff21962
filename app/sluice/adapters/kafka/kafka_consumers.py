"""Consumers that ports keep for their questions: connected once, and kept even if a caller stops waiting.

What one asks for is read as committed, but ends and times are asked of a `read_uncommitted` consumer: see
`kafka_read`. Beside an open transaction the stable offset lies below what was committed already.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_read import list_partitions, make_unreachable
from sluice.client.kafka_reading import Connection, open_consumer, read_to
from sluice.client.kafka_writing import KafkaWriter, Outgoing
from sluice.core.foundation.input_record import InputRecord
from sluice_topics.record_reading import read
from sluice_topics.records import NotifiedSubject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.kafka_reading import Isolation

_TAKEN_AT_ONCE = 500
"""How many records a caller takes before it lets the event loop run: 15 to 30 ms."""


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


class KafkaControlReader:
    """Reads the single partition of each control topic, as committed, from where the last call stopped.

    Connects with the first call. Raises KafkaError from each.
    """

    def __init__(self, cluster: KafkaCluster, topics: Mapping[str, str]) -> None:
        """`topics`: base name by real name, those that others depend on first."""
        self._topics = dict(topics)
        self._parts = [TopicPartition(name, 0) for name in topics]
        self._connection = Connection(cluster, "read_committed", self._parts)
        self._asking = Connection(cluster, "read_uncommitted", self._parts)
        self._read: list[InputRecord] = []

    async def to_end(self) -> list[InputRecord]:
        """Every record up to the end that the topics have now that no earlier call gave.

        Ends are asked for in the order that the records depend on each other: who publishes a bundle saw its
        signer's entry in the registry first, so the bundles' end is taken before the registry's.
        """
        consumer, asking = await self._connection.connect(), await self._asking.connect()
        ends = {part: int((await asking.end_offsets([part]))[part]) for part in reversed(self._parts)}
        async for batch in read_to(consumer, ends):
            self._read += [self._read_input_record(message) for message in batch]
        read, self._read = self._read, []
        return read

    async def close(self) -> None:
        """Give up the connection."""
        await self._connection.close()
        await self._asking.close()

    def _read_input_record(self, message: Any) -> InputRecord:
        base = self._topics[message.topic]
        return InputRecord(
            base, message.partition, message.offset, message.timestamp, message.key, message.value
        )


async def read_control(cluster: KafkaCluster, topics: Mapping[str, str]) -> list[InputRecord]:
    """Every record that the topics hold now; `topics` as for the reader. Raises UnknownTopics and
    KafkaUnreachable."""
    await list_partitions(cluster, list(topics))
    reader = KafkaControlReader(cluster, topics)
    try:
        return await reader.to_end()
    except KafkaError as error:
        raise make_unreachable(cluster, error) from error
    finally:
        await reader.close()


class KafkaNotified:
    """The subjects that were notified, in a compacted topic. Raises KafkaError from each call."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._writer = KafkaWriter(cluster)

    async def read_newest(self, partitions: Iterable[int]) -> dict[str, NotifiedSubject]:
        """The newest record of each subject of these partitions, up to the topic's end as of now."""
        parts = [TopicPartition(self._topic, number) for number in partitions]
        newest: dict[str, NotifiedSubject] = {}
        async with open_consumer(self._cluster, "read_uncommitted", parts=parts) as consumer:
            async for batch in read_to(consumer, await consumer.end_offsets(parts)):
                for message in batch:
                    record = read(NotifiedSubject, message.value or b"")
                    if isinstance(record, NotifiedSubject):
                        newest[record.subject_id] = record
        return newest

    async def keep(self, partition: int, record: NotifiedSubject) -> None:
        """It is acknowledged when this returns."""
        value = orjson.dumps(record.model_dump(mode="json", by_alias=True))
        await self._writer.write(self._topic, [Outgoing(record.subject_id.encode(), value)], partition)

    async def close(self) -> None:
        """Give up the connection."""
        await self._writer.close()
