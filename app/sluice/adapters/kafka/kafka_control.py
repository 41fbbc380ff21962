"""The control topics on a broker: read on to their end again and again, published to by one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from sluice.adapters.kafka.kafka_consumers import make_producer
from sluice.adapters.kafka.kafka_read import list_partitions, make_unreachable
from sluice.client.kafka_reading import Connection, read_to
from sluice.core.foundation.input_record import InputRecord
from sluice_topics.catalog import MAX_CONTROL_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiokafka import AIOKafkaProducer

    from sluice.adapters.kafka.kafka_publish import Outgoing
    from sluice.client.kafka_connection import KafkaCluster

_TIMEOUT_MS = 20_000
"""A publisher that dies in the middle holds readers up for this long at most."""


class AnotherPublisherError(Exception):
    """Another publisher began after this one: nothing of this one was written."""


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


async def publish_control(
    cluster: KafkaCluster,
    topics: Mapping[str, str],
    writer: str,
    choose: Callable[[Sequence[InputRecord]], Sequence[tuple[str, Outgoing]]],
) -> list[InputRecord]:
    """Write what `choose` makes of the records that are there, in one transaction; the records afterwards.

    `topics` as for the reader; `choose` gives topics by base name; if it gives nothing, nothing is written.
    `writer` is the transactional id that all publishers of an installation share, so that one who begins
    later ends those before: what was chosen is written behind exactly the records that it was chosen by.

    Raises AnotherPublisherError, UnknownTopics and KafkaUnreachable, and what `choose` raises; nothing is
    written then, but for KafkaUnreachable where the answer to the commit was lost.
    """
    await list_partitions(cluster, list(topics))
    reader = KafkaControlReader(cluster, topics)
    try:
        bounds = {"max_request_size": MAX_CONTROL_MESSAGE_BYTES, "transaction_timeout_ms": _TIMEOUT_MS}
        async with make_producer(cluster, transactional_id=writer, **bounds) as producer:
            records = await reader.to_end()
            chosen = choose(records)
            if chosen:
                await _write(producer, {base: real for real, base in topics.items()}, chosen)
                records += await reader.to_end()
            return records
    except ProducerFenced as error:
        raise AnotherPublisherError(f"another publisher began meanwhile: {error}") from error
    except KafkaError as error:
        raise make_unreachable(cluster, error) from error
    finally:
        await reader.close()


async def _write(
    producer: AIOKafkaProducer, names: Mapping[str, str], chosen: Sequence[tuple[str, Outgoing]]
) -> None:
    async with producer.transaction():
        for base, record in chosen:
            sent = await producer.send(names[base], record.value, record.key, headers=list(record.headers))
            await sent
