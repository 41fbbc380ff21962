"""What reruns and a verification need, as it lies in an archive: the same as from a broker, also where the
broker has deleted it since."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.adapters.archive.archived_records import name_damage
from sluice.adapters.archive.segment import ArchiveDamaged
from sluice.adapters.kafka.kafka_evidence import is_sought, merge_entries, read_written
from sluice.adapters.kafka.kafka_ledger import locate_record
from sluice.core.decide.kinds import DECIDING
from sluice.core.foundation.input_record import InputRecord
from sluice.core.rerun.walk import FIRST_OF_TOPIC, read_entry
from sluice.verifier.head_check import NO_HEADS
from sluice.verifier.ledger_findings import LedgerFinding
from sluice.verifier.verify import Verifier
from sluice_topics.agent_signature import find_header
from sluice_topics.catalog import BUNDLES, CATALOG, REGISTRY, TREE_HEADS
from sluice_topics.headers import find_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from sluice.adapters.archive.archived_records import Archive
    from sluice.adapters.archive.manifest import ArchiveFinding
    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.core.rerun.walk import LedgerEntry, Place, WrittenRecord
    from sluice.verifier.head_check import HeadSources
    from sluice.verifier.ledger_findings import Report
    from sluice.verifier.proof_check import SignedBy

_LEDGER = tuple(topic.name for topic in CATALOG if topic.ledger)
UNEVEN_MS = 900_000
"""By so much the heads' topic may be archived further than the ledger's."""


class ArchiveEvidence:
    """A LedgerSource over an archive. Every method raises ArchiveDamaged and StoreError."""

    def __init__(self, archive: Archive, prefix: str) -> None:
        self._archive = archive
        self._prefix = prefix

    async def read_policy(self) -> list[InputRecord]:
        """See LedgerSource."""
        return [record async for batch in self.read_inputs((REGISTRY, BUNDLES)) for record in batch]

    async def read_inputs(self, bases: Sequence[str]) -> AsyncIterator[list[InputRecord]]:
        """See LedgerSource."""
        async for base, batch in self._read_topics(bases):
            yield [_read_input(base, record) for record in batch]

    async def read_decisions(self) -> AsyncIterator[list[WrittenRecord]]:
        """See LedgerSource."""
        async for base, batch in self._read_topics(tuple(FIRST_OF_TOPIC)):
            yield [read_written(base, record, record.timestamp_ms) for record in batch]

    async def fetch_ends(self, bases: Sequence[str]) -> dict[tuple[str, int], int]:
        """See LedgerSource."""
        names = {f"{self._prefix}{base}": base for base in bases}
        parts = self._archive.list_parts(names)
        return {(names[part[0]], part[1]): self._archive.list_segments(part)[-1].end for part in parts}

    @asynccontextmanager
    async def open_fetcher(self) -> AsyncIterator[ArchiveFetcher]:
        """See LedgerSource."""
        yield ArchiveFetcher(self._archive, self._prefix)

    def open_partitions(self, group: str) -> ArchivePartitions:
        """See LedgerSource. The group's offsets are those that the manifest has."""
        del group
        return ArchivePartitions(self._archive, self._prefix)

    async def _read_topics(self, bases: Sequence[str]) -> AsyncIterator[tuple[str, list[StoredRecord]]]:
        names = {f"{self._prefix}{base}": base for base in bases}
        for part in self._archive.list_parts(names):
            async for batch in _read_in_thread(self._archive.read_part(part)):
                yield names[part[0]], batch


class ArchiveFetcher:
    """A RecordFetcher over an archive."""

    def __init__(self, archive: Archive, prefix: str) -> None:
        self._archive = archive
        self._prefix = prefix

    async def fetch_inputs(self, places: Iterable[Place]) -> dict[Place, InputRecord]:
        """See RecordFetcher."""
        offsets_of: dict[tuple[str, int], list[int]] = {}
        for topic, partition, offset in places:
            offsets_of.setdefault((topic, partition), []).append(offset)
        inputs: dict[Place, InputRecord] = {}
        for (topic, partition), offsets in offsets_of.items():
            part = f"{self._prefix}{topic}", partition
            records = await asyncio.to_thread(self._archive.fetch, part, offsets)
            inputs |= {(topic, partition, at): _read_input(topic, record) for at, record in records.items()}
        return inputs

    async def fetch_decisions(self, coordinates: Place, sought: str, since_ms: int) -> list[WrittenRecord]:
        """See RecordFetcher."""
        deciding = DECIDING.get(coordinates[0])
        if deciding is None:
            return []
        part = f"{self._prefix}{deciding.topic}", coordinates[1]
        return [
            read_written(deciding.topic, record, record.timestamp_ms)
            async for batch in _read_in_thread(self._archive.read_part(part, since_ms))
            for record in batch
            if record.timestamp_ms >= since_ms and is_sought(deciding.id_field, sought, record.value or b"")
        ]


class ArchivePartitions:
    """A LedgerPartitions over an archive."""

    def __init__(self, archive: Archive, prefix: str) -> None:
        self._archive = archive
        self._prefix = prefix

    async def list_numbers(self) -> list[int]:
        """See LedgerPartitions."""
        return sorted({number for _, number in self._archive.list_parts(self._list_ledger())})

    async def read_entries(self, number: int, since_ms: int = 0) -> AsyncIterator[list[LedgerEntry]]:
        """See LedgerPartitions. One segment of each ledger topic is unpacked at a time."""
        readers = {base: self._read_ledger(base, number, since_ms) for base in _LEDGER}
        async for batch in merge_entries(readers):
            yield batch

    async def read_decided_inputs(self, topic: str, number: int) -> AsyncIterator[list[InputRecord]]:
        """See LedgerPartitions."""
        part = f"{self._prefix}{topic}", number
        end = self._archive.manifest.decided.get(part, 0)
        async for batch in _read_in_thread(self._archive.read_part(part)):
            yield [_read_input(topic, record) for record in batch if record.offset < end]

    async def _read_ledger(self, base: str, number: int, since_ms: int) -> AsyncIterator[list[LedgerEntry]]:
        part = f"{self._prefix}{base}", number
        async for records in _read_in_thread(self._archive.read_part(part, since_ms)):
            yield _read_entries(base, records)

    def _list_ledger(self) -> set[str]:
        return {f"{self._prefix}{base}" for base in _LEDGER}


def verify_archived_ledger(
    archive: Archive,
    prefix: str,
    signed_by: SignedBy | None = None,
    sources: HeadSources = NO_HEADS,
) -> Report:
    """The verifier's report on the ledger in an archive, with what is wrong with the archive itself before.
    `sources`: of heads besides the archive's. Raises StoreError, and as Verifier and HeadSources."""
    heads_topic = f"{prefix}{TREE_HEADS}"
    ledger = {heads_topic, *(f"{prefix}{base}" for base in _LEDGER)}
    damages = [
        finding
        for finding in archive.manifest.findings
        if finding.code not in {"offsets_missing", "offsets_twice"}
        or finding.where.rpartition(":")[0] in ledger
    ]
    archived = map(locate_record, _read_undamaged(archive, {heads_topic}, damages))
    heads = sources.read(archived, archive.manifest.at_ms - UNEVEN_MS)
    verifier = Verifier(signed_by, heads)
    for record in _read_undamaged(archive, ledger - {heads_topic}, damages):
        verifier.add(locate_record(record))
    report = verifier.make_report()
    findings = tuple(_make_finding(damage) for damage in damages)
    return replace(report, findings=(*findings, *report.findings))


def _read_undamaged(
    archive: Archive, topics: set[str], damages: list[ArchiveFinding]
) -> Iterator[StoredRecord]:
    """Every record of the topics; what cannot be read is added to `damages`. Raises StoreError."""
    for part in archive.list_parts(topics):
        for segment in archive.list_segments(part):
            try:
                for batch in archive.read_batches(segment):
                    yield from batch
            except ArchiveDamaged as error:
                damages.append(name_damage(segment, error))


def _make_finding(finding: ArchiveFinding) -> LedgerFinding:
    return LedgerFinding(
        "archive_damaged", 0, None, finding.where, None, f"{finding.code}: {finding.message}"
    )


def _read_entries(base: str, records: Sequence[StoredRecord]) -> list[LedgerEntry]:
    entries = (read_entry(read_written(base, record, record.timestamp_ms)) for record in records)
    return [entry for entry in entries if entry is not None]


def _read_input(base: str, record: StoredRecord) -> InputRecord:
    return InputRecord(
        base,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.key,
        record.value,
        signature_header=find_header(record.headers),
        agent_header=find_agent(record.headers),
    )


async def _read_in_thread(batches: Iterator[list[StoredRecord]]) -> AsyncIterator[list[StoredRecord]]:
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch
