"""The file of an audit package, byte by byte. Written from the published description (docs/audit-package.md).

A package is a zip of members that are stored as they are, in one order and with fixed times. So there is one
way to write it: every byte of a header follows from the members, and a reader computes the headers again.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import TYPE_CHECKING, Any

from .export import NotAnExport, read_lines
from .package_manifest import MANIFEST, NotAPackage, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .export import Located
    from .package_manifest import PackedPartition, PackedSegment

_LOCAL, _CENTRAL, _END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_END_BYTES = 22
_SEAL_BYTES = 71
_NEWEST, _DATE, _MODE = 20, 0x21, 0x180
"""The zip's version 2.0; 1980-01-01; a file that its owner alone reads and writes."""
_UNIX = 3
MOST_MANIFEST_BYTES = 256 * 1024 * 1024
_GZIP = 31
_HASH_BYTES = 32


class MemberDamaged(ValueError):
    """A member is not what the manifest states; the message says how."""


class PackageFile:
    """An opened package. Read its members one at a time."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and NotAPackage."""
        self.path = path
        self.findings: list[str] = []
        with path.open("rb") as opened:
            self._size = opened.seek(0, 2)
            raw = _read_manifest(opened, self._size)
            self.manifest = read_manifest(raw)
            self._locations = self._locate_members(len(raw))
            self.findings += _compare_frame(opened, self._size, self._locations, self.manifest.digest)

    @property
    def digest(self) -> str:
        """The package's digest: that of its manifest, which states all else."""
        return self.manifest.digest

    def read_member(self, name: str) -> bytes:
        """A member's bytes. Raises OSError, and MemberDamaged where they are not those that are stated."""
        data, stated = self.read_stored(name), self._locations[name][2]
        actual = hashlib.sha256(data).hexdigest()
        if actual != stated:
            raise MemberDamaged(f"its SHA-256 is {actual}, the manifest states {stated}")
        return data

    def read_stored(self, name: str) -> bytes:
        """The bytes that lie where a member must lie. Raises OSError, and KeyError for what is no member."""
        at, size, _ = self._locations[name]
        with self.path.open("rb") as opened:
            opened.seek(at + _count_header(name))
            return opened.read(size)

    def read_segment(self, segment: PackedSegment) -> Iterator[Located]:
        """Its records. Raises as read_member."""
        lines = _unpack(self.read_member(segment.name), segment.raw_bytes).splitlines(keepends=True)
        before, count = segment.first - 1, 0
        try:
            for located in read_lines(lines):
                if (located.topic, located.partition) != (segment.topic, segment.partition):
                    raise MemberDamaged(f"line {count + 1} is of another topic or partition")
                if not before < located.offset <= segment.last:
                    raise MemberDamaged(f"line {count + 1}: offset {located.offset} is out of order")
                before, count = located.offset, count + 1
                yield located
        except NotAnExport as error:
            raise MemberDamaged(str(error)) from None
        if (count, before) != (segment.count, segment.last):
            stated = f"{segment.count} up to {segment.last}"
            raise MemberDamaged(f"it has {count} records up to offset {before}, the manifest states {stated}")

    def read_hashes(self, part: PackedPartition) -> list[str]:
        """The event hashes of the records before `complete_from`. Raises as read_member."""
        if part.hashes_sha256 is None:
            return []
        data = self.read_member(part.hashes_name)
        return [f"sha256:{data[at : at + _HASH_BYTES].hex()}" for at in range(0, len(data), _HASH_BYTES)]

    def _locate_members(self, manifest_bytes: int) -> dict[str, tuple[int, int, str]]:
        """Offset, size and SHA-256 of each member, in the order in which they must lie."""
        manifest = self.manifest
        stated = [(each.name, each.stored_bytes, each.sha256) for each in manifest.segments]
        stated += [
            (part.hashes_name, _HASH_BYTES * (part.complete_from - 1), part.hashes_sha256)
            for part in manifest.partitions
            if part.hashes_sha256 is not None
        ]
        stated.append((MANIFEST, manifest_bytes, manifest.digest[7:]))
        locations: dict[str, tuple[int, int, str]] = {}
        at = 0
        for name, size, digest in stated:
            if name in locations:
                raise NotAPackage(f"the manifest states {name} twice")
            locations[name] = at, size, digest
            at += _count_header(name) + size
            if at > self._size:
                raise NotAPackage("the manifest states more than the file has")
        return locations


def is_package(path: Path) -> bool:
    """Whether a file begins as a package does. Raises OSError."""
    with path.open("rb") as opened:
        return opened.read(len(_LOCAL)) == _LOCAL


def _count_header(name: str) -> int:
    return 30 + len(name.encode())


def _read_manifest(opened: Any, size: int) -> bytes:
    """The last member, which the end of the directory leads to. Raises NotAPackage."""
    opened.seek(max(size - _END_BYTES - _SEAL_BYTES, 0))
    end = opened.read()
    if len(end) != _END_BYTES + _SEAL_BYTES or end[:4] != _END:
        raise NotAPackage("it does not end as a package does: it was cut off, or is none")
    directory_bytes, directory_at = struct.unpack("<II", end[12:20])
    entry_bytes = 46 + len(MANIFEST)
    if directory_bytes < entry_bytes or directory_at + directory_bytes + len(end) != size:
        raise NotAPackage("its directory is not where its end says")
    opened.seek(directory_at + directory_bytes - entry_bytes)
    entry = opened.read(entry_bytes)
    (stored,) = struct.unpack("<I", entry[24:28])
    (at,) = struct.unpack("<I", entry[42:46])
    if entry[:4] != _CENTRAL or entry[46:] != MANIFEST.encode():
        raise NotAPackage(f"its last member is not {MANIFEST}")
    if stored > MOST_MANIFEST_BYTES or at + _count_header(MANIFEST) + stored != directory_at:
        raise NotAPackage(f"{MANIFEST} is not where the directory says")
    opened.seek(at + _count_header(MANIFEST))
    raw: bytes = opened.read(stored)
    return raw


def _compare_frame(
    opened: Any, size: int, locations: dict[str, tuple[int, int, str]], digest: str
) -> list[str]:
    """What lies between the members, against what must lie there."""
    directory, differing = b"", []
    end = 0
    for name, (at, stored, _) in locations.items():
        opened.seek(at)
        header = opened.read(_count_header(name))
        checksum = 0
        left = stored
        while left and (piece := opened.read(min(left, 1 << 20))):
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
        frame = struct.pack("<HHHHHIIIHH", _NEWEST, 0, 0, 0, _DATE, checksum, stored, stored, len(name), 0)
        if header != _LOCAL + frame + name.encode():
            differing.append(f"{name}: the header before it is not the one of this member")
        directory += _CENTRAL + bytes((_NEWEST, _UNIX)) + frame
        directory += struct.pack("<HHHII", 0, 0, 0, _MODE << 16, at) + name.encode()
        end = at + len(header) + stored
    seal = digest.encode()
    counts = struct.pack("<HHHHIIH", 0, 0, len(locations), len(locations), len(directory), end, len(seal))
    opened.seek(min(end, size))
    if opened.read() != directory + _END + counts + seal:
        differing.append("its directory or its end are not those of its members and its digest")
    return differing


def _unpack(data: bytes, raw_bytes: int) -> bytes:
    """The lines of a segment. Raises MemberDamaged."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        raw = unpacker.decompress(data, raw_bytes + 1)
    except zlib.error as error:
        raise MemberDamaged(f"not gzip: {error}") from None
    if len(raw) != raw_bytes or not unpacker.eof or unpacker.unused_data:
        raise MemberDamaged(f"it does not unpack to {raw_bytes} bytes, as the manifest states")
    return raw
