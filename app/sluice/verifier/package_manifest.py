"""What an audit package states of itself: its manifest. Written from the published description
(docs/audit-package.md)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from .ledger_record import NotStrict, canonicalize, read_object

SCHEMA = "sluice/audit_package/v1"
MANIFEST = "manifest.json"
MOST_RAW_BYTES = 128 * 1024 * 1024
"""Lines of a segment: 8 MiB, and the last one."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_LARGEST = 2**63 - 1
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999, ms since 1970."""


class NotAPackage(ValueError):
    """The file is no audit package, or so damaged that nothing in it can be located."""


@dataclass(frozen=True, slots=True)
class PackedSegment:
    """Records of one topic partition, as the manifest states them."""

    topic: str
    partition: int
    first: int
    last: int
    count: int
    raw_bytes: int
    stored_bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """The member's name, derived."""
        span = f"{self.first:020d}-{self.last:020d}-{self.sha256[:16]}"
        return f"segments/{self.topic}/{self.partition}/{span}.jsonl.gz"


@dataclass(frozen=True, slots=True)
class PackedPartition:
    """A partition of the ledger in the package: the number of its last record, the first number from which
    every record is there, and how many records are and are selected. `hashes_sha256`: of the member with the
    event hashes before `complete_from`; None where there is none."""

    partition: int
    size: int
    complete_from: int
    records: int
    selected: int
    hashes_sha256: str | None

    @property
    def hashes_name(self) -> str:
        """The member's name."""
        return f"hashes/{self.partition}.bin"


@dataclass(frozen=True, slots=True)
class PackageManifest:
    """What a package says of itself. `selection`: `by` and `value`; `head`: number, digest and size of the
    newest tree head; `decided`, `gone`: by topic and partition, how far inputs were decided, and how many
    were no longer there; `digest` of the member."""

    installation: str
    prefix: str
    by: str
    value: str | int
    only_selected: bool
    head: dict[str, Any] | None
    partitions: tuple[PackedPartition, ...]
    segments: tuple[PackedSegment, ...]
    decided: dict[tuple[str, int], int]
    gone: dict[tuple[str, int], int]
    digest: str


def read_manifest(raw: bytes) -> PackageManifest:
    """What a manifest states. Raises NotAPackage."""
    try:
        fields, plain = read_object(raw)
        if canonicalize(fields, plain=plain) != raw:
            _refuse("its canonical form")
        return _read_fields(fields, f"sha256:{hashlib.sha256(raw).hexdigest()}")
    except (NotStrict, KeyError, TypeError, AttributeError) as error:
        raise NotAPackage(f"{MANIFEST}: {error!r}") from None


def _read_fields(fields: dict[str, Any], digest: str) -> PackageManifest:
    if fields["schema"] != SCHEMA:
        raise NotStrict(f"its schema is {str(fields['schema'])[:80]!r}, not {SCHEMA}")
    selection = fields["selection"]
    by, value = selection["by"], selection["value"]
    is_time = type(value) is int and 0 <= value <= _LAST_MS
    only_selected = selection["only_selected"]
    if by not in {"session", "agent", "decision", "since"} or not (
        is_time if by == "since" else isinstance(value, str) and value
    ):
        raise NotStrict("its selection is none")
    if not isinstance(only_selected, bool):
        _refuse("whether it has selected records alone")
    head = fields["head"]
    return PackageManifest(
        installation=_read_text(fields["installation"]),
        prefix=_read_text(fields["topic_prefix"]),
        by=by,
        value=value,
        only_selected=only_selected,
        head=None if head is None else _read_head(head),
        partitions=tuple(_read_partition(part) for part in fields["partitions"]),
        segments=tuple(_read_segment(each) for each in fields["segments"]),
        decided=_read_offsets(fields["decided"]),
        gone=_read_offsets(fields["gone"]),
        digest=digest,
    )


def _read_head(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse("its head")
    return dict(value)


def _read_partition(fields: dict[str, Any]) -> PackedPartition:
    hashes, complete_from = fields["hashes_sha256"], _read_count(fields["complete_from"])
    if complete_from < 1 or (hashes is None) != (complete_from == 1):
        _refuse("the list of hashes before complete_from")
    return PackedPartition(
        partition=_read_count(fields["partition"]),
        size=_read_count(fields["size"]),
        complete_from=complete_from,
        records=_read_count(fields["records"]),
        selected=_read_count(fields["selected"]),
        hashes_sha256=None if hashes is None else _read_sha256(hashes),
    )


def _read_segment(fields: dict[str, Any]) -> PackedSegment:
    topic, raw_bytes = fields["topic"], _read_count(fields["raw_bytes"])
    if not _TOPIC.fullmatch(_read_text(topic)) or raw_bytes > MOST_RAW_BYTES:
        _refuse("a topic's name or a segment's size")
    return PackedSegment(
        topic=topic,
        partition=_read_count(fields["partition"]),
        first=_read_count(fields["first"]),
        last=_read_count(fields["last"]),
        count=_read_count(fields["count"]),
        raw_bytes=raw_bytes,
        stored_bytes=_read_count(fields["stored_bytes"]),
        sha256=_read_sha256(fields["sha256"]),
    )


def _read_offsets(fields: dict[str, Any]) -> dict[tuple[str, int], int]:
    return {
        (topic, _read_number(number)): _read_count(offset)
        for topic, offsets in fields.items()
        for number, offset in offsets.items()
    }


def _read_count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        _refuse("a number")
    return int(value)


def _read_number(name: str) -> int:
    if not _NUMBER.fullmatch(name):
        _refuse("a partition's number")
    return int(name)


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        _refuse("a text")
    return str(value)


def _read_sha256(value: Any) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        _refuse("a SHA-256")
    return str(value)


def _refuse(what: str) -> NoReturn:
    raise NotStrict(f"{what} is missing or out of bounds")
