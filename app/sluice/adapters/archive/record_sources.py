"""Records as they lie, for an audit package: on a broker, or in an archive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from sluice.adapters.kafka.kafka_evidence import KafkaPartitions
from sluice.adapters.kafka.kafka_read import UnknownTopics, open_reader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from sluice.adapters.archive.archived_records import Archive
    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.client.kafka_connection import KafkaCluster


class RecordSource(Protocol):
    """Reads topics by their real names."""

    def read_records(self, topics: Sequence[str]) -> AsyncIterator[list[StoredRecord]]:
        """Every committed record of the topics, each partition in order; a topic that is not there has
        none."""

    async def fetch_decided(self) -> Mapping[tuple[str, int], int]:
        """By topic and partition the offset below which the workers had decided every input."""


class BrokerRecords:
    """A RecordSource over a broker. Raises KafkaUnreachable."""

    def __init__(self, cluster: KafkaCluster, prefix: str, group: str) -> None:
        """`group`: the workers' consumer group."""
        self._cluster = cluster
        self._partitions = KafkaPartitions(cluster, prefix, group)

    async def read_records(self, topics: Sequence[str]) -> AsyncIterator[list[StoredRecord]]:
        """See RecordSource."""
        try:
            async with open_reader(self._cluster, topics, "beginning") as reader:
                async for batch in reader.to_end():
                    yield batch
        except UnknownTopics as error:
            present = [topic for topic in topics if topic not in error.names]
            if present:
                async for batch in self.read_records(present):
                    yield batch

    async def fetch_decided(self) -> Mapping[tuple[str, int], int]:
        """See RecordSource."""
        return await self._partitions.fetch_decided()


class ArchivedRecords:
    """A RecordSource over an archive, or over another package. Raises ArchiveDamaged and StoreError."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    async def read_records(self, topics: Sequence[str]) -> AsyncIterator[list[StoredRecord]]:
        """See RecordSource."""
        for part in self._archive.list_parts(topics):
            batches = self._archive.read_part(part)
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                yield batch

    async def fetch_decided(self) -> Mapping[tuple[str, int], int]:
        """See RecordSource."""
        return self._archive.manifest.decided
