"""Writes an audit package: the same ledger and selection give the same bytes (docs/audit-package.md)."""

from __future__ import annotations

import zipfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from hashlib import sha256
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from sluice.adapters.archive.package_plan import CONTROL, INPUTS, LEDGER, count_gone
from sluice.adapters.archive.segment import MOST_STORED_BYTES, Segment, SegmentBuilder
from sluice.core.foundation.canonical import canonical
from sluice_topics.catalog import TREE_HEADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from sluice.adapters.archive.package_plan import PackagePlan, PlannedPartition
    from sluice.adapters.archive.record_sources import RecordSource
    from sluice.adapters.kafka.kafka_read import StoredRecord

SCHEMA = "sluice/audit_package/v1"
SEGMENT_BYTES = 8 * 1024 * 1024
"""A segment is closed when it has so many bytes of lines."""
MOST_BYTES = 2**32 - MOST_STORED_BYTES
"""A zip of the format has offsets of 32 bits."""
MOST_MEMBERS = 65_000
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX, _MODE = 3, 0o600 << 16


class PackageTooLarge(Exception):
    """More than a package holds; the message says what to do."""


@dataclass(frozen=True, slots=True)
class PackageOrigin:
    """Of which installation a package is: what its settings say. `settings`: those that decisions depend on,
    by name; a rerun uses them."""

    installation: str
    prefix: str
    app_id: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenPackage:
    """A package that was written: its digest, records of the ledger in it, and how many are selected."""

    digest: str
    records: int
    selected: int
    inputs: int


class _SegmentSpool:
    """Builds the segments of many topic partitions at once; what is closed waits in a temporary file."""

    def __init__(self, spool: IO[bytes], ledger: frozenset[str]) -> None:
        self._spool = spool
        self._ledger = ledger
        self._open: dict[tuple[str, int], SegmentBuilder] = {}
        self.closed: list[tuple[Segment, int]] = []

    def add(self, record: StoredRecord) -> None:
        part = record.topic, record.partition
        if part not in self._open:
            has_head = record.topic in self._ledger
            self._open[part] = SegmentBuilder(*part, record.offset, has_head=has_head)
        builder = self._open[part]
        builder.add(record)
        if builder.raw_bytes >= SEGMENT_BYTES:
            self._close(part)

    def close(self) -> list[tuple[Segment, int]]:
        """All segments with their places in the spool, in their order in the package."""
        for part in list(self._open):
            self._close(part)
        return sorted(self.closed, key=lambda each: (each[0].topic, each[0].partition, each[0].first))

    def _close(self, part: tuple[str, int]) -> None:
        builder = self._open.pop(part)
        segment, data = builder.close(builder.next_offset)
        self.closed.append((segment, self._spool.tell()))
        self._spool.write(data)
        if self._spool.tell() > MOST_BYTES:
            raise PackageTooLarge("a package has 3.5 GiB at most: choose less, such as a later --since")


async def write_package(
    source: RecordSource, plan: PackagePlan, origin: PackageOrigin, path: Path
) -> WrittenPackage:
    """Write the file, which must not exist; a part of one does not stay. Raises OSError, PackageTooLarge, and
    as the source."""
    with path.open("xb") as out, TemporaryFile() as spool:
        try:
            return await _write_package(source, plan, origin, out, spool)
        except BaseException:
            path.unlink()  # noqa: ASYNC240 - once, after a fault
            raise


async def _write_package(
    source: RecordSource, plan: PackagePlan, origin: PackageOrigin, out: IO[bytes], spool: IO[bytes]
) -> WrittenPackage:
    prefix = origin.prefix
    ledger = frozenset(f"{prefix}{base}" for base in LEDGER)
    shared = frozenset(f"{prefix}{base}" for base in (*CONTROL, TREE_HEADS))
    inputs = {f"{prefix}{base}": base for base in INPUTS}
    there: dict[str, Counter[int]] = defaultdict(Counter)
    records: Counter[int] = Counter()
    segments = _SegmentSpool(spool, ledger)
    async for batch in source.read_records([*sorted(ledger | shared), *inputs]):
        for record in batch:
            part = plan.partitions.get(record.partition)
            if record.topic in shared:
                segments.add(record)
            elif part is None:
                continue
            elif record.topic in ledger:
                if part.has_record(record.value):
                    records[part.number] += 1
                    segments.add(record)
            elif part.has_input(base := inputs[record.topic], record.offset):
                there[base][part.number] += record.offset in part.named[base]
                segments.add(record)
    closed = segments.close()
    manifest = canonical(_build_manifest(plan, origin, [segment for segment, _ in closed], records, there))
    write_zip(out, _list_members(spool, closed, plan), manifest)
    selected = sum(part.selected for part in plan.partitions.values())
    counted = sum(segment.count for segment, _ in closed if segment.topic in inputs)
    return WrittenPackage(_compute_digest(manifest), records.total(), selected, counted)


def _build_manifest(
    plan: PackagePlan,
    origin: PackageOrigin,
    segments: list[Segment],
    records: Mapping[int, int],
    there: Mapping[str, Counter[int]],
) -> dict[str, Any]:
    decided: dict[str, dict[str, int]] = defaultdict(dict)
    gone: dict[str, dict[str, int]] = defaultdict(dict)
    for number, part in plan.partitions.items():
        for base, offset in part.decided.items():
            decided[base][str(number)] = offset
        for base, count in count_gone(part, there):
            gone[base][str(number)] = count
    head = plan.head
    return {
        "schema": SCHEMA,
        "installation": origin.installation,
        "topic_prefix": origin.prefix,
        "app_id": origin.app_id,
        "settings": dict(origin.settings),
        "selection": {
            "by": plan.selection.by,
            "value": plan.selection.value,
            "only_selected": plan.selection.only_selected,
        },
        "head": None if head is None else {"number": head.number, "digest": head.digest, "size": head.size},
        "partitions": [
            _build_partition(part, records.get(number, 0)) for number, part in sorted(plan.partitions.items())
        ],
        "segments": [segment.model_dump(mode="json") for segment in segments],
        "decided": decided,
        "gone": gone,
    }


def _build_partition(part: PlannedPartition, records: int) -> dict[str, Any]:
    hashes = sha256(part.hashes).hexdigest() if part.complete_from > 1 else None
    return {
        "partition": part.number,
        "size": part.size,
        "complete_from": part.complete_from,
        "records": records,
        "selected": part.selected,
        "hashes_sha256": hashes,
    }


def _list_members(
    spool: IO[bytes], segments: list[tuple[Segment, int]], plan: PackagePlan
) -> Iterator[tuple[str, bytes]]:
    for segment, at in segments:
        spool.seek(at)
        yield segment.name, spool.read(segment.stored_bytes)
    for number, part in sorted(plan.partitions.items()):
        if part.complete_from > 1:
            yield f"hashes/{number}.bin", part.hashes


def write_zip(out: IO[bytes], members: Iterable[tuple[str, bytes]], manifest: bytes) -> None:
    """Write members in their order, the manifest last, and its digest as the zip's comment. Raises
    PackageTooLarge."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=False) as package:
        for count, (name, data) in enumerate(members):
            if count >= MOST_MEMBERS:
                raise PackageTooLarge(f"a package has {MOST_MEMBERS} members at most: choose less")
            _write_member(package, name, data)
        _write_member(package, "manifest.json", manifest)
        package.comment = _compute_digest(manifest).encode()


def _write_member(package: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system, info.external_attr = _UNIX, _MODE
    package.writestr(info, data)


def _compute_digest(manifest: bytes) -> str:
    return f"sha256:{sha256(manifest).hexdigest()}"
