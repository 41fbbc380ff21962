"""Consumers that ports keep for their questions: connected once, and kept even if a caller stops waiting.

What one asks for is read as committed, but ends and times are asked of a `read_uncommitted` consumer: see
`kafka_read`. Beside an open transaction the stable offset lies below what was committed already.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from sluice.client.kafka_connection import build_client_arguments

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from sluice.client.kafka_connection import KafkaCluster

Isolation = Literal["read_committed", "read_uncommitted"]

POLL_MS = 100
FETCH_BYTES = 1_048_576
_PATIENCE_S = 1.0
"""A connection is made in some 50 ms, where the broker is there."""


def make_consumer(
    cluster: KafkaCluster, isolation: Isolation, fetch_max_wait_ms: int = 200, **more: Any
) -> AIOKafkaConsumer:
    """A consumer of no group, not connected, which reads from the beginning where it is not told."""
    return AIOKafkaConsumer(
        **build_client_arguments(cluster),
        isolation_level=isolation,
        enable_auto_commit=False,
        fetch_max_wait_ms=fetch_max_wait_ms,
        **{"auto_offset_reset": "earliest", **more},
    )


def make_producer(cluster: KafkaCluster, **more: Any) -> AIOKafkaProducer:
    """An idempotent producer, not connected. `more`: aiokafka's arguments, such as a transactional id."""
    return AIOKafkaProducer(**build_client_arguments(cluster), enable_idempotence=True, **more)


class Connection:
    """One consumer. It connects with the first question, in a task of its own: a question that is cancelled
    meanwhile leaves the connection to the next one, and half of one to nobody."""

    def __init__(
        self,
        cluster: KafkaCluster,
        isolation: Isolation,
        parts: Sequence[TopicPartition] = (),
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        """`parts`: what it reads from the beginning, if that never changes; `fetch_bytes`: of a partition."""
        self._cluster = cluster
        self._isolation = isolation
        self._parts = parts
        self._fetch_bytes = fetch_bytes
        self._starting: asyncio.Task[AIOKafkaConsumer] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def connect(self) -> AIOKafkaConsumer:
        """Connected. Raises KafkaError."""
        if self._starting is None or _has_failed(self._starting):
            self._starting = asyncio.create_task(self._start())
        starting = self._starting
        await asyncio.wait([starting])  # and not the task itself: who stops waiting stops nobody else
        if starting.cancelled():
            raise KafkaConnectionError("the connection was given up")
        return starting.result()

    async def close(self) -> None:
        """Give up the connection, also where the caller stops waiting. The next question connects."""
        starting, self._starting = self._starting, None
        if starting is not None:
            self._stopping = asyncio.create_task(_stop_started(starting))
            await asyncio.wait([self._stopping])

    async def _start(self) -> AIOKafkaConsumer:
        how = {"fetch_max_wait_ms": POLL_MS, "max_partition_fetch_bytes": self._fetch_bytes}
        consumer = make_consumer(self._cluster, self._isolation, **how)
        ready = False
        try:
            await consumer.start()
            if self._parts:
                consumer.assign(self._parts)
                await consumer.seek_to_beginning(*self._parts)
            ready = True
        finally:
            if not ready:
                await consumer.stop()
        return consumer


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
    while await consumer.position(part) < end:
        batch = (await consumer.getmany(part, timeout_ms=POLL_MS)).get(part, ())
        yield [message for message in batch if message.offset < end]


async def is_behind(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether a partition is not read up to its end."""
    return any([await consumer.position(part) < end for part, end in ends.items()])


def _has_failed(task: asyncio.Task[AIOKafkaConsumer]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _stop_started(starting: asyncio.Task[AIOKafkaConsumer]) -> None:
    """One that is cancelled in the middle leaves a socket behind, so it may first end by itself."""
    await asyncio.wait([starting], timeout=_PATIENCE_S)
    starting.cancel()
    await asyncio.wait([starting])
    if not _has_failed(starting):
        await starting.result().stop()


_TAKEN_AT_ONCE = 500
"""How many records a caller takes before it lets the event loop run: 15 to 30 ms."""


class KafkaCompacted:
    """Reads every partition, as committed. Connects with the first call. Raises KafkaError from each."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int) -> None:
        self._parts = [TopicPartition(topic, number) for number in range(partitions)]
        self._connection = Connection(cluster, "read_committed", self._parts)

    async def to_end(self) -> AsyncIterator[list[bytes]]:
        """The values of the records up to the topic's end as of now that no earlier call gave, a batch at a
        time: the topic is never held whole. One that is given up loses none: the next goes on behind it.

        Between two calls nothing is fetched: a fetch that waits for news would cost CPU and keep the next
        call waiting."""
        consumer = await self._connection.connect()
        ends = await consumer.end_offsets(self._parts)
        while await is_behind(consumer, ends):
            consumer.resume(*self._parts)
            batch = await consumer.getmany(timeout_ms=POLL_MS, max_records=_TAKEN_AT_ONCE)
            yield [message.value for messages in batch.values() for message in messages if message.value]
        consumer.pause(*self._parts)

    async def close(self) -> None:
        """Give up the connection."""
        await self._connection.close()
