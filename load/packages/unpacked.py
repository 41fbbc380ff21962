"""A package taken apart into records, and put together again with every digest made anew: what a forger who
knows the format does."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from sluice.adapters.archive.package_plan import Selection
from sluice.adapters.archive.package_writer import write_zip
from sluice.adapters.archive.segment import SegmentBuilder, read_record
from sluice.core.foundation.canonical import canonical

if TYPE_CHECKING:
    from sluice.adapters.kafka.kafka_read import StoredRecord

Part = tuple[str, int]
_MANIFEST = "manifest.json"


@dataclass
class UnpackedPackage:
    """The manifest's fields, records by topic and partition, and lists of hashes by partition."""

    manifest: dict[str, Any]
    records: dict[Part, list[StoredRecord]]
    hashes: dict[int, bytes]

    @property
    def prefix(self) -> str:
        """Of the topics."""
        return str(self.manifest["topic_prefix"])

    def list_ledger(self, ledger: tuple[str, ...]) -> list[Part]:
        """The parts of the ledger that have records."""
        topics = {f"{self.prefix}{base}" for base in ledger}
        return sorted(part for part, records in self.records.items() if part[0] in topics and records)

    def pack(self, *, recount: bool = True) -> bytes:
        """The file's bytes. `recount`: the manifest's counts of records follow too."""
        members: list[tuple[str, bytes]] = []
        segments: list[dict[str, Any]] = []
        heads = {segment["topic"] for segment in self.manifest["segments"] if segment["head"] is not None}
        for part, records in sorted(self.records.items()):
            if not records:
                continue
            builder = SegmentBuilder(*part, records[0].offset, has_head=part[0] in heads)
            for record in records:
                builder.add(record)
            segment, data = builder.close(builder.next_offset)
            members.append((segment.name, data))
            segments.append(segment.model_dump(mode="json"))
        manifest = self.manifest | {"segments": segments}
        manifest["partitions"] = [self._recount(part, heads, recount) for part in manifest["partitions"]]
        members += [(f"hashes/{number}.bin", data) for number, data in sorted(self.hashes.items())]
        out = io.BytesIO()
        write_zip(out, members, canonical(manifest))
        return out.getvalue()

    def _recount(self, stated: dict[str, Any], ledger: set[str], recount: bool) -> dict[str, Any]:
        number = stated["partition"]
        selection = self.manifest["selection"]
        if not recount:
            return stated
        records = [
            record
            for part, listed in self.records.items()
            if part[0] in ledger and part[1] == number
            for record in listed
        ]
        chosen = Selection(selection["by"], selection["value"])
        selected = [each for each in records if chosen.has_record(read_fields(each), each.timestamp_ms)]
        digest = sha256(self.hashes[number]).hexdigest() if number in self.hashes else None
        return stated | {"records": len(records), "selected": len(selected), "hashes_sha256": digest}


def unpack(data: bytes) -> UnpackedPackage:
    """Take a package apart."""
    records: dict[Part, list[StoredRecord]] = defaultdict(list)
    hashes: dict[int, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        manifest = orjson.loads(package.read(_MANIFEST))
        for name in package.namelist():
            if name.startswith("segments/"):
                for line in gzip.decompress(package.read(name)).splitlines():
                    record = read_record(line)
                    records[record.topic, record.partition].append(record)
            elif name.startswith("hashes/"):
                hashes[int(name[7:-4])] = package.read(name)
    return UnpackedPackage(manifest, records, hashes)


def read_fields(record: StoredRecord) -> dict[str, Any]:
    """The fields of a record's value; none for what is no object."""
    try:
        fields = orjson.loads(record.value or b"null")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
