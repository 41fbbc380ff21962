"""What reruns need, as it lies on a broker: verdicts, their inputs by coordinates, every bundle and entry."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from app.adapters.kafka_read import KafkaUnreachable, open_reader, partitions_of
from app.core.arrival import Arrival
from app.core.ids import verdict_id
from app.core.ledger.evidence import PolicyEvidence
from topics.catalog import ACTIONS, BUNDLES, REGISTRY, VERDICTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

Place = tuple[str, int, int]
"""Base topic, partition and offset of an input."""

READ_ON = 2000
"""Up to this many records between two wanted ones it is quicker to read on than to fetch anew."""
_POLL_MS = 200


class KafkaEvidence:
    """Reads one installation's topics. Every method raises UnknownTopics and KafkaUnreachable."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self._servers = bootstrap_servers
        self._prefix = prefix

    async def policy(self) -> PolicyEvidence:
        """Every control record so far."""
        names = {f"{self._prefix}{base}": base for base in (REGISTRY, BUNDLES)}
        evidence = PolicyEvidence()
        async with open_reader(self._servers, list(names), "beginning") as reader:
            async for batch in reader.to_end():
                for record in batch:
                    evidence.add(names[record.topic], record.value)
        return evidence

    async def verdicts(self) -> AsyncIterator[list[bytes]]:
        """The values of every committed verdict, in batches, each partition in order."""
        async with open_reader(self._servers, [f"{self._prefix}{VERDICTS}"], "beginning") as reader:
            async for batch in reader.to_end():
                yield [record.value or b"" for record in batch]

    @asynccontextmanager
    async def places(self) -> AsyncIterator[Places]:
        """A reader of single records."""
        parts = await partitions_of(self._servers, [f"{self._prefix}{base}" for base in (ACTIONS, VERDICTS)])
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_POLL_MS,
        )
        try:
            await consumer.start()
            yield Places(consumer, self._prefix, frozenset(parts))
        except KafkaError as error:
            raise KafkaUnreachable(f"{self._servers}: {error}") from error
        finally:
            await consumer.stop()


class Places:
    """Fetches inputs by their coordinates and verdicts by their ids."""

    def __init__(self, consumer: AIOKafkaConsumer, prefix: str, parts: frozenset[TopicPartition]) -> None:
        self._consumer = consumer
        self._prefix = prefix
        self._parts = parts

    async def inputs(self, places: Iterable[Place]) -> dict[Place, Arrival]:
        """What lies at these places; one is absent where nothing does any more."""
        wanted: dict[tuple[str, int], set[int]] = {}
        for topic, partition, offset in places:
            wanted.setdefault((topic, partition), set()).add(offset)
        found: dict[Place, Arrival] = {}
        for (topic, partition), offsets in wanted.items():
            part = TopicPartition(f"{self._prefix}{topic}", partition)
            if part in self._parts:
                async for message in self._messages(part, sorted(offsets)):
                    place = (topic, partition, message.offset)
                    found[place] = Arrival(*place, message.timestamp, message.key, message.value)
        return found

    async def verdict(self, place: Place, since_ms: int) -> bytes | None:
        """The verdict on the input at this place, written at or after `since_ms` of the broker's time."""
        part = TopicPartition(f"{self._prefix}{VERDICTS}", place[1])
        if part not in self._parts:
            return None
        sought = f'"verdict_id":"{verdict_id(":".join(map(str, place)))}"'.encode()
        self._consumer.assign([part])
        start = (await self._consumer.offsets_for_times({part: since_ms}))[part]
        end = (await self._consumer.end_offsets([part]))[part]
        if start is None:
            return None
        self._consumer.seek(part, start.offset)
        while await self._consumer.position(part) < end:
            for message in (await self._consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, ()):
                if sought in (message.value or b""):
                    return bytes(message.value)
        return None

    async def _messages(self, part: TopicPartition, offsets: list[int]) -> AsyncIterator[Any]:
        self._consumer.assign([part])
        first = (await self._consumer.beginning_offsets([part]))[part]
        end = (await self._consumer.end_offsets([part]))[part]
        for run in _runs([offset for offset in offsets if first <= offset < end]):
            wanted = set(run)
            self._consumer.seek(part, run[0])
            while await self._consumer.position(part) <= run[-1]:
                for message in (await self._consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, ()):
                    if message.offset in wanted:
                        yield message


def _runs(offsets: list[int]) -> list[list[int]]:
    """Ascending offsets in groups that are worth reading in one go."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= READ_ON:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs
