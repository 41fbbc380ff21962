"""One partition of the ledger over all its topics, in the order of its numbers; and the inputs it must
answer."""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from app.adapters.kafka.kafka_evidence import written_as
from app.adapters.kafka.kafka_read import KafkaUnreachable, ends_of, partitions_of
from app.core.foundation.arrival import Arrival
from app.core.rerun.walk import DECIDED, entry_of
from topics.catalog import CATALOG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from app.core.rerun.walk import Entry

_POLL_MS = 200
BATCH = 500


class KafkaPartitions:
    """Reads one installation's topics, partition by partition. `group`: the workers' consumer group. Every
    method raises UnknownTopics and KafkaUnreachable."""

    def __init__(self, bootstrap_servers: str, prefix: str, group: str) -> None:
        self._servers = bootstrap_servers
        self._prefix = prefix
        self._group = group
        self._ledger = {f"{prefix}{topic.name}": topic.name for topic in CATALOG if topic.ledger}

    async def numbers(self) -> list[int]:
        """Of the ledger's partitions."""
        return sorted({part.partition for part in await partitions_of(self._servers, list(self._ledger))})

    async def entries(self, number: int) -> AsyncIterator[list[Entry]]:
        """Every committed record of a partition by its number, in batches. Of what is no record nothing is
        said."""
        parts = [TopicPartition(name, number) for name in self._ledger]
        async with self._assigned(parts) as (consumer, ends):
            waiting: dict[TopicPartition, deque[Entry]] = {part: deque() for part in parts}
            batch: list[Entry] = []
            while True:
                for part, queue in waiting.items():
                    await self._fill(consumer, part, queue, ends[part])
                heads = [
                    (queue[0].fields["sequence"], part.topic) for part, queue in waiting.items() if queue
                ]
                if not heads:
                    break
                batch.append(waiting[TopicPartition(min(heads)[1], number)].popleft())
                if len(batch) >= BATCH:
                    yield batch
                    batch = []
            yield batch

    async def decided_inputs(self, topic: str, number: int) -> AsyncIterator[list[Arrival]]:
        """The inputs of a topic (base name) that the workers' group has committed as decided, as far as they
        are still there."""
        part = TopicPartition(f"{self._prefix}{topic}", number)
        until = (await self._committed()).get(part, 0)
        async with self._assigned([part]) as (consumer, ends):
            end = min(until, ends[part])
            while await consumer.position(part) < end:
                fetched = (await consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, ())
                yield [
                    Arrival(topic, number, one.offset, one.timestamp, one.key, one.value)
                    for one in fetched
                    if one.offset < end
                ]

    async def _committed(self) -> Mapping[TopicPartition, int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._servers)
        try:
            await admin.start()
            found = await admin.list_consumer_group_offsets(self._group)
            return {part: one.offset for part, one in found.items()}
        except KafkaError as error:
            raise KafkaUnreachable(f"{self._servers}: {error}") from error
        finally:
            await admin.close()

    async def _fill(
        self, consumer: AIOKafkaConsumer, part: TopicPartition, queue: deque[Entry], end: int
    ) -> None:
        while not queue and await consumer.position(part) < end:
            for message in (await consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, ()):
                entry = entry_of(written_as(self._ledger[part.topic], message, message.timestamp))
                if entry is not None:
                    queue.append(entry)

    @asynccontextmanager
    async def _assigned(
        self, parts: list[TopicPartition]
    ) -> AsyncIterator[tuple[AIOKafkaConsumer, dict[TopicPartition, int]]]:
        """Ends are high watermarks, as app/adapters/kafka/kafka_read.py says."""
        asking, consumer = (self._consumer(one) for one in ("read_uncommitted", "read_committed"))
        try:
            await asking.start()
            await consumer.start()
            ends = await ends_of(asking, parts)
            consumer.assign(parts)
            await consumer.seek_to_beginning(*parts)
            yield consumer, ends
        except KafkaError as error:
            raise KafkaUnreachable(f"{self._servers}: {error}") from error
        finally:
            await asking.stop()
            await consumer.stop()

    def _consumer(self, isolation: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_POLL_MS,
        )


INPUTS = tuple(DECIDED)
"""The topics whose every input is answered by a decision or a dead letter."""
