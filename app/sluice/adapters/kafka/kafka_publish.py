"""Publishing records: inputs one by one, control records in one transaction behind those they rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka.errors import KafkaError, ProducerFenced

from sluice.adapters.kafka.kafka_consumers import KafkaControlReader
from sluice.adapters.kafka.kafka_read import list_partitions, make_unreachable
from sluice.client.kafka_writing import KafkaWriter
from sluice_topics.catalog import MAX_CONTROL_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.kafka_writing import Outgoing, PublishedAt
    from sluice.core.foundation.input_record import InputRecord

_REQUEST_BYTES = 1_048_576
_TIMEOUT_MS = 20_000
"""A publisher that dies in the middle holds readers up for this long at most."""


class AnotherPublisherError(Exception):
    """Another publisher began after this one: nothing of this one was written."""


async def publish(
    cluster: KafkaCluster,
    topic: str,
    records: Iterable[Outgoing],
    *,
    max_request_bytes: int = _REQUEST_BYTES,
    partition: int | None = None,
) -> list[PublishedAt]:
    """Every record's place, in the order given, once all are acknowledged. `partition`: as for KafkaWriter.

    Raises UnknownTopics, and KafkaUnreachable when a record was refused or not acknowledged: some of the
    others may then have been published.
    """
    await list_partitions(cluster, [topic])
    try:
        async with KafkaWriter(cluster, max_request_size=max_request_bytes) as writer:
            return await writer.write(topic, records, partition)
    except KafkaError as error:
        raise make_unreachable(cluster, error) from error


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
        async with KafkaWriter(cluster, transactional_id=writer, **bounds) as producer:
            records = await reader.to_end()
            chosen = choose(records)
            if chosen:
                names = {base: real for real, base in topics.items()}
                await producer.write_together((names[base], record) for base, record in chosen)
                records += await reader.to_end()
            return records
    except ProducerFenced as error:
        raise AnotherPublisherError(f"another publisher began meanwhile: {error}") from error
    except KafkaError as error:
        raise make_unreachable(cluster, error) from error
    finally:
        await reader.close()
