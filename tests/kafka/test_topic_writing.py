"""The one writer, on a real broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError

from sluice.client.kafka_reading import open_consumer, read_to
from sluice.client.kafka_writing import KafkaWriter, Outgoing, PublishedAt

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.kafka


@pytest.fixture
async def topic(kafka: str, prefix: str) -> str:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(f"{prefix}written", 2, 1)])
    finally:
        await admin.close()
    return f"{prefix}written"


def make_records(numbers: Sequence[int]) -> list[Outgoing]:
    return [Outgoing(b"k", b"%d" % number, (("h", b"%d" % number),)) for number in numbers]


async def read_committed(servers: str, topic: str) -> list[tuple[int, bytes | None]]:
    """Partition and value of each record, each partition in order."""
    parts = [TopicPartition(topic, number) for number in range(2)]
    async with (
        open_consumer(servers, parts=parts) as consumer,
        open_consumer(servers, "read_uncommitted", parts=parts) as asking,
    ):
        batches = read_to(consumer, await asking.end_offsets(parts))
        return [(message.partition, message.value) async for batch in batches for message in batch]


async def test_records_of_a_key_or_a_partition_lie_in_their_order(kafka: str, topic: str) -> None:
    async with KafkaWriter(kafka) as writer:
        by_key = await writer.write(topic, make_records(range(50)))
        tombstone = await writer.write(topic, [Outgoing(b"k", None)], partition=1)
    assert isinstance(by_key[0], PublishedAt)
    (number,) = {place.partition for place in by_key}
    assert [place.offset for place in by_key] == list(range(50))
    assert (tombstone[0].topic, tombstone[0].partition) == (topic, 1)
    written = await read_committed(kafka, topic)
    assert [pair for pair in written if pair[1] is not None] == [(number, b"%d" % each) for each in range(50)]
    assert (1, None) in written


async def test_a_closed_writer_connects_with_the_next_record(kafka: str, topic: str) -> None:
    writer = KafkaWriter(kafka)
    await writer.write(topic, make_records([1]), partition=0)
    await writer.close()
    await writer.write(topic, make_records([2]), partition=0)
    await writer.close()
    assert await read_committed(kafka, topic) == [(0, b"1"), (0, b"2")]


async def test_of_records_that_are_written_together_all_count_or_none(
    kafka: str, prefix: str, topic: str
) -> None:
    async with KafkaWriter(kafka, transactional_id=f"{prefix}w", max_request_size=1000) as writer:
        too_large = [*make_records([1]), Outgoing(b"k", b"x" * 2000)]
        with pytest.raises(MessageSizeTooLargeError):
            await writer.write_together(((topic, record) for record in too_large), 0)
        assert await read_committed(kafka, topic) == []
        await writer.write_together(((topic, record) for record in make_records([2, 3])), 0)
        assert await read_committed(kafka, topic) == [(0, b"2"), (0, b"3")]


async def test_a_writer_that_cannot_connect_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[AIOKafkaProducer] = []
    stop = AIOKafkaProducer.stop

    async def note_stop(producer: AIOKafkaProducer) -> None:
        stopped.append(producer)
        await stop(producer)

    monkeypatch.setattr(AIOKafkaProducer, "stop", note_stop)
    with pytest.raises(KafkaConnectionError):
        async with asyncio.timeout(30):
            await KafkaWriter("127.0.0.1:9").write("nowhere", make_records([1]))
    assert len(stopped) == 1
