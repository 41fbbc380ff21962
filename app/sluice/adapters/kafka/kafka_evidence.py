"""What reruns need, as it lies on a broker: decisions, inputs by coordinates, every bundle and entry.

For a check of one partition: its ledger over all its topics, in the order of its numbers, and the inputs that
it must answer.
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_consumers import read_batches_since
from sluice.adapters.kafka.kafka_ledger import LEDGER, LedgerReader
from sluice.adapters.kafka.kafka_read import list_partitions, make_unreachable, open_admin, open_reader
from sluice.client.kafka_reading import open_consumer, read_around
from sluice.core.decide.kinds import DECIDING, KINDS
from sluice.core.foundation.input_record import InputRecord
from sluice.core.rerun.walk import FIRST_OF_TOPIC, Place, WrittenRecord, read_entry
from sluice_topics.agent_signature import find_header
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.headers import find_agent
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer

    from sluice.adapters.kafka.kafka_read import Start, TopicReader
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.core.rerun.walk import LedgerEntry


READ_ON = 2000
"""Up to this many records between two wanted ones it is quicker to read on than to fetch anew."""


class KafkaEvidence:
    """Reads one installation's topics. Every method raises UnknownTopics and KafkaUnreachable."""

    def __init__(self, cluster: KafkaCluster, prefix: str) -> None:
        self.cluster = cluster
        self.prefix = prefix

    async def read_policy(self) -> list[InputRecord]:
        """Every control record so far."""
        return [record async for batch in self.read_inputs((REGISTRY, BUNDLES)) for record in batch]

    async def read_inputs(self, bases: Sequence[str]) -> AsyncIterator[list[InputRecord]]:
        """Every record of these topics (base names), without headers."""
        async for batch in LedgerReader.of(self.cluster, self.prefix, bases).read_batches():
            yield [
                InputRecord(
                    base, record.partition, record.offset, record.timestamp_ms, record.key, record.value
                )
                for base, record in batch
            ]

    async def fetch_ends(self, bases: Sequence[str]) -> dict[tuple[str, int], int]:
        """The offset behind the last record, by topic (base name) and partition."""
        names = {f"{self.prefix}{base}": base for base in bases}
        async with open_reader(self.cluster, list(names), "end") as reader:
            return {(names[part.topic], part.partition): end for part, end in reader.ends.items()}

    async def read_decisions(self) -> AsyncIterator[list[WrittenRecord]]:
        """Every committed decision, in batches, each partition of a topic in order."""
        async for batch in LedgerReader.of(self.cluster, self.prefix, FIRST_OF_TOPIC).read_batches():
            yield [read_written(base, record, record.timestamp_ms) for base, record in batch]

    def open_partitions(self, group: str) -> KafkaPartitions:
        """A reader of whole partitions."""
        return KafkaPartitions(self.cluster, self.prefix, group)

    @asynccontextmanager
    async def open_fetcher(self) -> AsyncIterator[InputFetcher]:
        """A reader of single records."""
        bases = [*(kind.topic for kind in KINDS if kind.session), *FIRST_OF_TOPIC]
        parts = await list_partitions(self.cluster, [f"{self.prefix}{base}" for base in bases])
        try:
            async with (
                open_consumer(self.cluster) as consumer,
                open_consumer(self.cluster, "read_uncommitted") as asking,
            ):
                yield InputFetcher(consumer, asking, self.prefix, frozenset(parts))
        except KafkaError as error:
            raise make_unreachable(self.cluster, error) from error


class InputFetcher:
    """Fetches inputs by their coordinates and the decisions on them. A transaction that is open around one is
    waited for."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        asking: AIOKafkaConsumer,
        prefix: str,
        parts: frozenset[TopicPartition],
    ) -> None:
        """`consumer` reads as committed, `asking` knows what lies there: see `kafka_consumers`."""
        self._consumer = consumer
        self._asking = asking
        self._prefix = prefix
        self._parts = parts

    async def fetch_inputs(self, places: Iterable[Place]) -> dict[Place, InputRecord]:
        """Fetch the inputs at these places; one is absent where nothing lies any more."""
        offsets_of: dict[tuple[str, int], set[int]] = {}
        for topic, partition, offset in places:
            offsets_of.setdefault((topic, partition), set()).add(offset)
        inputs: dict[Place, InputRecord] = {}
        for (topic, partition), offsets in offsets_of.items():
            part = self._make_part(topic, partition)
            if part in self._parts:
                async for message in self._read_messages(part, sorted(offsets)):
                    coordinates = (topic, partition, message.offset)
                    inputs[coordinates] = read_input(topic, message, message.timestamp)
        return inputs

    async def fetch_decisions(self, coordinates: Place, sought: str, since_ms: int) -> list[WrittenRecord]:
        """Every decision of id `sought` on the input at this place, written at or after `since_ms` of the
        broker's time. One is right."""
        records: list[WrittenRecord] = []
        deciding = DECIDING.get(coordinates[0])
        if deciding is None or (part := self._make_part(deciding.topic, coordinates[1])) not in self._parts:
            return records
        async for batch in read_batches_since(self._consumer, self._asking, part, since_ms):
            records += [
                read_written(deciding.topic, message, message.timestamp)
                for message in batch
                if is_sought(deciding.id_field, sought, message.value or b"")
            ]
        return records

    def _make_part(self, topic: str, partition: int) -> TopicPartition:
        return TopicPartition(f"{self._prefix}{topic}", partition)

    async def _read_messages(self, part: TopicPartition, offsets: list[int]) -> AsyncIterator[Any]:
        self._consumer.assign([part])
        needed = set(offsets)
        async for batch in read_around(self._consumer, self._asking, part, offsets, READ_ON):
            for message in batch:
                if message.offset in needed:
                    yield message


def read_input(topic: str, message: Any, timestamp_ms: int) -> InputRecord:
    """A Kafka message as an input of the topic with this base name."""
    coordinates = (topic, message.partition, message.offset, timestamp_ms)
    return InputRecord(
        *coordinates,
        message.key,
        message.value,
        signature_header=find_header(message.headers),
        agent_header=find_agent(message.headers),
    )


def read_written(topic: str, message: Any, written_ms: int) -> WrittenRecord:
    """A Kafka message as a record of the topic with this base name."""
    headers = tuple(message.headers)
    return WrittenRecord(
        topic, message.partition, message.offset, written_ms, message.key, message.value or b"", headers
    )


def is_sought(field: str, sought: str, value: bytes) -> bool:
    """Whether a decision is the one that is sought by its id, which `field` holds. Those on derived
    memories name its id too; a forger may write it with escapes or spaces."""
    if sought.encode() not in value and b"\\u" not in value:
        return False
    fields = parse(value)
    return isinstance(fields, dict) and fields.get(field) == sought


BATCH = 500


async def merge_entries(
    readers: Mapping[str, AsyncIterator[list[LedgerEntry]]],
) -> AsyncIterator[list[LedgerEntry]]:
    """The records of one partition's ledger by their numbers, in batches. `readers`: of each topic, whose
    records lie in this order. What one reader gives is taken whole before it is asked again."""
    waiting: dict[str, deque[LedgerEntry]] = {}
    heads: list[tuple[int, str]] = []
    asked = list(readers)
    batch: list[LedgerEntry] = []
    while asked or heads:
        for topic in asked:
            entries = await _read_next(readers[topic])
            if entries:
                waiting[topic] = deque(entries)
                heappush(heads, (entries[0].fields["sequence"], topic))
        asked = []
        while heads and not asked and len(batch) < BATCH:
            topic = heads[0][1]
            queue = waiting[topic]
            batch.append(queue.popleft())
            if queue:
                heapreplace(heads, (queue[0].fields["sequence"], topic))
            else:
                heappop(heads)
                asked = [topic]
        if len(batch) >= BATCH:
            yield batch
            batch = []
    yield batch


async def _read_next(reader: AsyncIterator[list[LedgerEntry]]) -> list[LedgerEntry]:
    """The next records; none at the end."""
    async for entries in reader:
        if entries:
            return entries
    return []


class KafkaPartitions:
    """Reads one installation's topics, partition by partition. `group`: the workers' consumer group. Every
    method raises UnknownTopics and KafkaUnreachable."""

    def __init__(self, cluster: KafkaCluster, prefix: str, group: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._group = group
        self._ledger = {f"{prefix}{base}": base for base in LEDGER}

    async def list_numbers(self) -> list[int]:
        """List the numbers of the ledger's partitions."""
        return sorted({part.partition for part in await list_partitions(self._cluster, list(self._ledger))})

    async def read_entries(self, number: int, since_ms: int = 0) -> AsyncIterator[list[LedgerEntry]]:
        """Every committed record of a partition by its number, in batches, those written before `since_ms`
        (broker's time) left out. A value that is not a record is skipped."""
        start: Start | int = since_ms or "beginning"
        async with open_reader(self._cluster, list(self._ledger), start, number) as reader:
            readers = {name: self._read_part(reader, name, number) for name in self._ledger}
            async for batch in merge_entries(readers):
                yield batch

    async def read_decided_inputs(self, topic: str, number: int) -> AsyncIterator[list[InputRecord]]:
        """The inputs of a topic (base name) that the workers' group has committed as decided, as far as they
        are still there."""
        name = f"{self._prefix}{topic}"
        until = (await self.fetch_decided()).get((name, number), 0)
        async with open_reader(self._cluster, [name], "beginning", number) as reader:
            async for batch in reader.read_part(name, number, until):
                yield [read_input(topic, record, record.timestamp_ms) for record in batch]

    async def fetch_decided(self) -> dict[tuple[str, int], int]:
        """By real topic and partition the offset below which the workers' group has committed every input."""
        async with open_admin(self._cluster) as admin:
            committed = await admin.list_consumer_group_offsets(self._group)
        return {(part.topic, part.partition): offset.offset for part, offset in committed.items()}

    async def _read_part(
        self, reader: TopicReader, topic: str, number: int
    ) -> AsyncIterator[list[LedgerEntry]]:
        base = self._ledger[topic]
        async for batch in reader.read_part(topic, number):
            entries = (read_entry(read_written(base, record, record.timestamp_ms)) for record in batch)
            yield [entry for entry in entries if entry is not None]
