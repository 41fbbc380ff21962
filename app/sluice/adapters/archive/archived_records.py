"""Reads an archive: its records by topic and partition, and whether all of it is what the manifest says.

One segment is unpacked at a time, and a few that were asked for by offset are kept. All methods block on the
store: call them from a thread. `sluice archive check` and every reader use the same code, so what one names
as wrong the others refuse.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING

from sluice.adapters.archive.archive_store import ObjectMissing, ObjectTooLarge
from sluice.adapters.archive.manifest import NO_TRUST, ArchiveFinding, ArchiveRefused, read_manifest
from sluice.adapters.archive.segment import ArchiveDamaged, read_head, read_segment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.adapters.archive.manifest import ArchiveTrust, FindingCode, Manifest, Part
    from sluice.adapters.archive.segment import Segment
    from sluice.adapters.kafka.kafka_read import StoredRecord

_BATCH = 1000
_KEPT_RAW_BYTES = 64 * 1024 * 1024


class Archive:
    """The records of a store with its manifest. Raises StoreError from each method, and ArchiveDamaged from
    those that read records."""

    def __init__(
        self, store: ArchiveStore, trust: ArchiveTrust = NO_TRUST, manifest: Manifest | None = None
    ) -> None:
        """`manifest`: None: read it from the store. Raises StoreError, and ArchiveRefused where no archive
        is."""
        self.store = store
        self.manifest: Manifest = read_manifest(store, trust) if manifest is None else manifest
        self._cached: dict[str, dict[int, StoredRecord]] = {}
        self._kept_bytes = 0
        if not self.manifest.number and not self.manifest.findings:
            raise ArchiveRefused(f"{store.url}: no archive lies there")

    def require_whole_manifest(self, of: tuple[str, str, str] | None = None) -> None:
        """Raise ArchiveDamaged where something is wrong with the manifest, and ArchiveRefused where the
        archive is not of this installation (id, prefix, app)."""
        serious = [finding for finding in self.manifest.findings if finding.code != "offsets_missing"]
        if serious:
            raise ArchiveDamaged(f"{serious[0].where}: {serious[0].message}")
        if of is not None and self.manifest.installation_of != of:
            raise ArchiveRefused(
                f"{self.store.url} is the archive of {self.manifest.installation_of}, not of {of} "
                "(installation, topic prefix, app)"
            )

    def list_parts(self, topics: Collection[str]) -> list[Part]:
        """The partitions of these topics (real names) that have records, in order."""
        return sorted(part for part in self.manifest.segments if part[0] in topics)

    def list_segments(self, part: Part) -> list[Segment]:
        """The segments of a partition in the order of their offsets."""
        return self.manifest.segments.get(part, [])

    def find_read_end(self, part: Part) -> int:
        """The offset below which an archiver read all of an input partition that lay on the broker: the
        archive's end, or more where nothing was left to archive of what was decided."""
        return max(self.manifest.find_end(part) or 0, self.manifest.decided.get(part, 0))

    def read_part(self, part: Part, since_ms: int = 0) -> Iterator[list[StoredRecord]]:
        """The records of a partition in batches; segments that end before `since_ms` are left out."""
        for segment in self.list_segments(part):
            if segment.last_ms >= since_ms:
                yield from self.read_batches(segment)

    def read_batches(self, segment: Segment) -> Iterator[list[StoredRecord]]:
        """The records of a segment in batches. The head is held against the manifest at the end."""
        last: StoredRecord | None = None
        records = read_segment(segment, self.read_file(segment))
        while batch := list(islice(records, _BATCH)):
            last = batch[-1]
            yield batch
        if segment.head is not None and (last is None or read_head(last.value) != segment.head):
            raise ArchiveDamaged(f"{segment.name}: it does not end at the ledger head of the manifest")

    def read_file(self, segment: Segment) -> bytes:
        """The bytes of a segment's file, of the size that the manifest says."""
        try:
            return self.store.read(segment.name, segment.stored_bytes)
        except ObjectMissing:
            raise ArchiveDamaged(f"{segment.name}: the file is missing") from None
        except ObjectTooLarge:
            raise ArchiveDamaged(f"{segment.name}: the file is larger than the manifest says") from None

    def fetch(self, part: Part, offsets: Iterable[int]) -> dict[int, StoredRecord]:
        """The records at these offsets of a partition; one is absent where nothing lies in the archive."""
        segments = self.list_segments(part)
        begins = [segment.begin for segment in segments]
        records: dict[int, StoredRecord] = {}
        for offset in sorted(set(offsets)):
            at = bisect_right(begins, offset) - 1
            if at >= 0 and offset < segments[at].end:
                record = self._read_kept(segments[at]).get(offset)
                if record is not None:
                    records[offset] = record
        return records

    def check(self) -> Iterator[ArchiveFinding]:
        """Everything that is wrong with the archive: of the manifest first, then each segment read whole."""
        yield from self.manifest.findings
        for part in sorted(self.manifest.segments):
            for segment in self.list_segments(part):
                try:
                    for _ in self.read_batches(segment):
                        pass
                except ArchiveDamaged as error:
                    yield name_damage(segment, error)

    def _read_kept(self, segment: Segment) -> dict[int, StoredRecord]:
        name = segment.name
        if name in self._cached:
            return self._cached[name]
        if self._kept_bytes + segment.raw_bytes > _KEPT_RAW_BYTES:
            self._cached.clear()
            self._kept_bytes = 0
        records = {record.offset: record for batch in self.read_batches(segment) for record in batch}
        self._cached[name] = records
        self._kept_bytes += segment.raw_bytes
        return records


def name_damage(segment: Segment, error: ArchiveDamaged) -> ArchiveFinding:
    """What is wrong with a segment, as a finding."""
    code: FindingCode = "segment_missing" if str(error).endswith("the file is missing") else "segment_altered"
    return ArchiveFinding(code, segment.name, str(error).removeprefix(f"{segment.name}: "))
