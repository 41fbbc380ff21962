"""Reading on to an end, on a real broker: nothing is lost between two calls, and nothing waits for news."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from sluice.adapters.kafka.kafka_read import open_reader
from sluice.client.kafka_reading import open_consumer, read_around, read_between, read_to

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer

pytestmark = pytest.mark.kafka


@pytest.fixture
async def parts(kafka: str, prefix: str) -> list[TopicPartition]:
    """Two partitions, with five records each."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(f"{prefix}read", 2, 1)])
    finally:
        await admin.close()
    parts = [TopicPartition(f"{prefix}read", number) for number in range(2)]
    await write(kafka, parts, range(5))
    return parts


async def write(servers: str, parts: list[TopicPartition], numbers: range) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
        for number in numbers:
            for part in parts:
                await producer.send_and_wait(part.topic, b"%d" % number, partition=part.partition)


async def read_values(
    consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int], most: int | None = None
) -> dict[int, list[int]]:
    """By partition."""
    values: dict[int, list[int]] = {}
    async for batch in read_to(consumer, ends, most):
        for message in batch:
            values.setdefault(message.partition, []).append(int(message.value))
    return values


@pytest.mark.parametrize("most", [None, 1])
async def test_what_lies_behind_an_end_is_read_the_next_time(
    kafka: str, parts: list[TopicPartition], most: int | None
) -> None:
    async with open_consumer(kafka, parts=parts) as consumer:
        first = await read_values(consumer, {parts[0]: 2, parts[1]: 4}, most)
        assert first == {0: [0, 1], 1: [0, 1, 2, 3]}
        assert consumer.paused() == set(parts), "nothing is fetched between two calls"
        await write(kafka, parts, range(5, 7))
        second = await read_values(consumer, await consumer.end_offsets(parts), most)
        assert second == {0: [2, 3, 4, 5, 6], 1: [4, 5, 6]}
        assert await read_values(consumer, await consumer.end_offsets(parts), most) == {}


async def test_a_reading_that_is_given_up_loses_nothing(kafka: str, parts: list[TopicPartition]) -> None:
    async with open_consumer(kafka, parts=parts) as consumer:
        ends = await consumer.end_offsets(parts)
        batches = read_to(consumer, ends, 3)
        begun = [(message.partition, message.offset) for message in await anext(batches)]
        await batches.aclose()
        rest = [
            (message.partition, message.offset)
            async for batch in read_to(consumer, ends)
            for message in batch
        ]
    assert sorted(begun + rest) == [(part.partition, offset) for part in parts for offset in range(5)]


async def test_the_end_is_reached_over_what_was_rolled_back(
    kafka: str, prefix: str, parts: list[TopicPartition]
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=f"{prefix}writer") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(parts[0].topic, b"never", partition=0)
        async with (
            open_consumer(kafka, parts=parts) as consumer,
            open_consumer(kafka, "read_uncommitted", parts=parts) as asking,
        ):
            ends = await asking.end_offsets(parts)
            assert ends == {parts[0]: 6, parts[1]: 5}
            reading = asyncio.ensure_future(read_values(consumer, ends))
            done, _ = await asyncio.wait([reading], timeout=1)
            assert not done, "an open transaction is waited for"
            await producer.abort_transaction()
            assert await reading == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2, 3, 4]}


async def test_a_stretch_of_one_partition_is_read_and_no_more(
    kafka: str, parts: list[TopicPartition]
) -> None:
    async with open_consumer(kafka, parts=parts) as consumer:
        for begin, end in [(3, 5), (0, 2), (1, 4)]:
            stretch = await read_between(consumer, parts[1], begin, end)
            assert [(message.partition, message.offset) for message in stretch] == [
                (1, offset) for offset in range(begin, end)
            ]


@pytest.mark.parametrize(("read_on", "offsets"), [(0, [1, 4]), (1, [1, 2, 4]), (3, [1, 2, 3, 4])])
async def test_single_messages_come_with_those_between_that_are_near(
    kafka: str, parts: list[TopicPartition], read_on: int, offsets: list[int]
) -> None:
    asked = [offset for offset in offsets if read_on < 3 or offset in (1, 4)] + [5, 99]
    async with (
        open_consumer(kafka, parts=parts) as consumer,
        open_consumer(kafka, "read_uncommitted", parts=parts) as asking,
    ):
        batches = read_around(consumer, asking, parts[0], asked, read_on)
        assert [message.offset async for batch in batches for message in batch] == offsets


async def test_who_follows_after_the_end_misses_nothing_that_came_meanwhile(
    kafka: str, parts: list[TopicPartition]
) -> None:
    async with open_reader(kafka, [parts[0].topic], "beginning") as reader:
        await write(kafka, parts, range(5, 8))  # behind the ends, and fetched with what lies before
        before = [(one.partition, one.offset) async for batch in reader.to_end() for one in batch]
        after = [(one.partition, one.offset) async for batch in reader.follow(2000) for one in batch]
    assert sorted(before) == [(part.partition, offset) for part in parts for offset in range(5)]
    assert sorted(after) == [(part.partition, offset) for part in parts for offset in range(5, 8)]
