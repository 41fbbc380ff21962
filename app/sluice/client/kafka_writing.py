"""One writer of records: an idempotent producer, whose records every in-sync replica acknowledges, in order.

Importing this loads no Kafka.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sluice.client.kafka_connection import build_client_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiokafka import AIOKafkaProducer

    from sluice.client.kafka_connection import ClientArguments


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to publish. The key chooses the partition, as Kafka's own clients choose it. No `value`: a
    tombstone."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedAt:
    """The coordinates of a published record; `timestamp_ms` is the broker's time, or -1 where it gave
    none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def make_producer(cluster: ClientArguments, **more: Any) -> AIOKafkaProducer:
    """An idempotent producer, not connected. `more`: aiokafka's arguments, such as a transactional id."""
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - importing the client loads no Kafka

    return AIOKafkaProducer(**build_client_arguments(cluster), enable_idempotence=True, **more)


class KafkaWriter:
    """One producer, which connects with the first record, or as a context. Raises KafkaError from each call,
    and leaves nothing open where it cannot connect."""

    def __init__(self, cluster: ClientArguments, **more: Any) -> None:
        """`more`: see `make_producer`."""
        self._cluster = cluster
        self._more = more
        self._producer: AIOKafkaProducer | None = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> AIOKafkaProducer:
        """Connected; with a transactional id every earlier writer of this id is ended."""
        if self._producer is None:
            producer = make_producer(self._cluster, **self._more)
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            self._producer = producer
        return self._producer

    async def write(
        self, topic: str, records: Iterable[Outgoing], partition: int | None = None
    ) -> list[PublishedAt]:
        """Every record's place, in the order given, once all are acknowledged; all go to one partition where
        it is given."""
        sent = [await self._send(topic, record, partition) for record in records]
        return [_read_place(metadata) for metadata in await asyncio.gather(*sent)]

    async def write_together(
        self, records: Iterable[tuple[str, Outgoing]], partition: int | None = None
    ) -> None:
        """Write them, each to its topic, in one transaction. Raises ProducerFenced where a later writer of
        this id began."""
        producer = await self.connect()
        async with producer.transaction():
            for topic, record in records:
                await (await self._send(topic, record, partition))

    async def close(self) -> None:
        """Give up the connection. The next record connects."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def _send(self, topic: str, record: Outgoing, partition: int | None) -> asyncio.Future[Any]:
        """Its acknowledgement."""
        producer = await self.connect()
        acknowledged: asyncio.Future[Any] = await producer.send(
            topic, record.value, record.key, partition=partition, headers=list(record.headers)
        )
        return acknowledged


def _read_place(metadata: Any) -> PublishedAt:
    return PublishedAt(metadata.topic, metadata.partition, metadata.offset, metadata.timestamp or -1)
