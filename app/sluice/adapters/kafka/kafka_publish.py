"""Publishing records to a topic: idempotent producer, acknowledged by every in-sync replica, in order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_consumers import make_producer
from sluice.adapters.kafka.kafka_read import list_partitions, make_unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiokafka import AIOKafkaProducer

    from sluice.client.kafka_connection import KafkaCluster


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to publish. The key chooses the partition, as Kafka's own clients choose it."""

    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class PublishedAt:
    """The coordinates of a published record; `timestamp_ms` is the broker's time, or -1 where it gave
    none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


async def publish(
    cluster: KafkaCluster, topic: str, records: Iterable[Outgoing], *, max_request_bytes: int
) -> list[PublishedAt]:
    """Every record's place, in the order given, once all are acknowledged.

    Raises UnknownTopics, and KafkaUnreachable when a record was refused or not acknowledged: some of the
    others may then have been published.
    """
    await list_partitions(cluster, [topic])
    producer = make_producer(cluster, max_request_size=max_request_bytes)
    try:
        async with producer:
            return await _send(producer, topic, records)
    except KafkaError as error:
        raise make_unreachable(cluster, error) from error


async def _send(producer: AIOKafkaProducer, topic: str, records: Iterable[Outgoing]) -> list[PublishedAt]:
    acknowledged = [
        await producer.send(topic, each.value, each.key, headers=list(each.headers)) for each in records
    ]
    return [_read_place(metadata) for metadata in await asyncio.gather(*acknowledged)]


def _read_place(metadata: Any) -> PublishedAt:
    return PublishedAt(metadata.topic, metadata.partition, metadata.offset, metadata.timestamp or -1)
