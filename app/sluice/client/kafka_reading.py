"""Consumers of no group: connected by one rule, and read on to an end, call by call.

Importing this loads no Kafka.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from sluice.client.kafka_connection import build_client_arguments

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.kafka_connection import ClientArguments

Isolation = Literal["read_committed", "read_uncommitted"]

POLL_MS = 100
FOLLOW_MS = 500
"""For so long who follows waits for news before it looks at what else is to be done."""
FETCH_WAIT_MS = 200
"""For so long the broker holds a fetch that finds nothing."""
FETCH_BYTES = 1_048_576
_PATIENCE_S = 1.0
"""A connection is made in some 50 ms, where the broker is there."""


def make_consumer(
    cluster: ClientArguments,
    isolation: Isolation = "read_committed",
    fetch_max_wait_ms: int = FETCH_WAIT_MS,
    **more: Any,
) -> AIOKafkaConsumer:
    """A consumer, not connected, which commits nothing by itself and reads from the beginning where it is not
    told. `more`: aiokafka's arguments."""
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - importing the client loads no Kafka

    return AIOKafkaConsumer(
        **build_client_arguments(cluster),
        isolation_level=isolation,
        enable_auto_commit=False,
        fetch_max_wait_ms=fetch_max_wait_ms,
        **{"auto_offset_reset": "earliest", **more},
    )


async def connect_consumer(
    cluster: ClientArguments,
    isolation: Isolation = "read_committed",
    *,
    parts: Sequence[TopicPartition] = (),
    **more: Any,
) -> AIOKafkaConsumer:
    """As `make_consumer`, and connected. `parts`: what it reads from the beginning, paused until it does.
    Raises KafkaError, and leaves nothing open then."""
    consumer = make_consumer(cluster, isolation, **more)
    try:
        await consumer.start()
        if parts:
            consumer.assign(parts)
            await consumer.seek_to_beginning(*parts)
            consumer.pause(*parts)
    except BaseException:
        await consumer.stop()
        raise
    return consumer


@asynccontextmanager
async def open_consumer(
    cluster: ClientArguments, isolation: Isolation = "read_committed", **more: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    """For the block. Takes and raises as `connect_consumer`."""
    consumer = await connect_consumer(cluster, isolation, **more)
    try:
        yield consumer
    finally:
        await consumer.stop()


async def read_to(
    consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int], most: int | None = None
) -> AsyncGenerator[list[Any], None]:
    """Messages of these partitions from where each is read up to now to before its end, in batches of at most
    so many, each partition in order. Raises KafkaError.

    It is over when the positions have reached the ends, not at the last messages: commit markers take offsets
    too and are never delivered. What came with a batch from behind an end is read the next time: nothing is
    lost between two calls, or where one is given up. A partition that is read is paused: a fetch that waits
    for news would cost CPU, and keep the next question waiting.
    """
    left = set(ends)
    while left := {part for part in left if await consumer.position(part) < ends[part]}:
        consumer.pause(*(ends.keys() - left))
        consumer.resume(*left)
        batch: list[Any] = []
        fetched = await consumer.getmany(*left, timeout_ms=POLL_MS, max_records=most)
        for part, messages in fetched.items():
            if messages[-1].offset < ends[part]:
                batch += messages
            else:
                batch += [message for message in messages if message.offset < ends[part]]
                consumer.seek(part, ends[part])
        yield batch
    consumer.pause(*ends)


async def read_between(consumer: AIOKafkaConsumer, part: TopicPartition, begin: int, end: int) -> list[Any]:
    """A partition's messages from one offset to before another. Raises KafkaError."""
    consumer.seek(part, begin)
    return [message async for batch in read_to(consumer, {part: end}) for message in batch]


async def read_around(
    consumer: AIOKafkaConsumer,
    asking: AIOKafkaConsumer,
    part: TopicPartition,
    offsets: Sequence[int],
    read_on: int,
) -> AsyncIterator[list[Any]]:
    """The messages at these ascending offsets, as far as they are there, and those between two that are so
    near to each other that it is quicker to read on, in batches. `asking` knows what lies there. Raises
    KafkaError."""
    first = (await asking.beginning_offsets([part]))[part]
    end = (await asking.end_offsets([part]))[part]
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][1] <= read_on:
            runs[-1] = runs[-1][0], offset
        elif first <= offset < end:
            runs.append((offset, offset))
    for begin, last in runs:
        consumer.seek(part, begin)
        async for batch in read_to(consumer, {part: min(last + 1, end)}):
            yield batch


class Connection:
    """One consumer. It connects with the first question, in a task of its own: a question that is cancelled
    meanwhile leaves the connection to the next one, and half of one to nobody."""

    def __init__(
        self,
        cluster: ClientArguments,
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
        from aiokafka.errors import KafkaConnectionError  # noqa: PLC0415 - importing the client loads no Kafka

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
        return await connect_consumer(
            self._cluster,
            self._isolation,
            parts=self._parts,
            fetch_max_wait_ms=POLL_MS,
            max_partition_fetch_bytes=self._fetch_bytes,
        )


def _has_failed(task: asyncio.Task[AIOKafkaConsumer]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _stop_started(starting: asyncio.Task[AIOKafkaConsumer]) -> None:
    """One that is cancelled in the middle leaves a socket behind, so it may first end by itself."""
    await asyncio.wait([starting], timeout=_PATIENCE_S)
    starting.cancel()
    await asyncio.wait([starting])
    if not _has_failed(starting):
        await starting.result().stop()
