"""A segment of an archive: some records of one topic partition, in the order of their offsets, in one file.

The file is gzip over lines of JSON, one for each record, in the form of a ledger export
(sluice/verifier/export.py) with the headers beside: `{"topic", "partition", "offset", "timestamp", "key",
"value", "headers"}`. `timestamp` is in ms; `key` is base64 or null; `value` is the record's text, or null
with its bytes in `value_base64` where they are not UTF-8; `headers` are `[name, text]`, or `[name, null,
base64]`, or `[name, null]` for a header without a value. So a record comes back byte for byte.

What a reader is given may be of a forger: nothing is believed before the file's SHA-256 is that of the
manifest, and even then a file is taken apart in bounded steps and held against what the manifest says of it.
"""

from __future__ import annotations

import base64
import re
import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sluice.adapters.kafka.kafka_read import StoredRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

_GZIP = 31
"""zlib's window bits for a gzip frame; its header has no time and no name, so the same records are the same
bytes."""
_LEVEL = 6
COMPRESSOR_BYTES = 262_144
"""What zlib keeps for a file that is being written."""
MOST_STORED_BYTES = 512 * 1024 * 1024
MOST_RAW_BYTES = 4 * 1024 * 1024 * 1024
MOST_LINE_BYTES = 64 * 1024 * 1024
"""A value of 4 MiB of control characters is a line of 24 MiB."""
_STEP = 262_144
_MOST_INTEGER = 2**63 - 1

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
Offset = Annotated[int, Field(ge=0, le=_MOST_INTEGER)]


class ArchiveDamaged(Exception):
    """What lies in the archive is not what the manifest says; the message names the file and the fault."""


class LedgerHead(BaseModel):
    """The number and the hash of a ledger record: the last of the chain of its partition in a segment."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    sequence: Offset
    event_hash: Annotated[str, Field(max_length=100)]


class Segment(BaseModel):
    """What the manifest says of a segment. It covers the offsets from `begin` to `end` (exclusive), whether
    or not something lies at each: markers of transactions, what was rolled back and what compaction took
    leave gaps between `first` and `last`. `raw_bytes`: of the lines; `stored_bytes` and `sha256`: of the
    file; `head`: of ledger topics, the last record's number and hash."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    topic: Annotated[str, Field(pattern=TOPIC.pattern, max_length=249)]
    partition: Annotated[int, Field(ge=0, le=1_000_000)]
    begin: Offset
    end: Offset
    first: Offset
    last: Offset
    count: Annotated[int, Field(ge=1, le=_MOST_INTEGER)]
    first_ms: Annotated[int, Field(ge=-1, le=_MOST_INTEGER)]
    last_ms: Annotated[int, Field(ge=-1, le=_MOST_INTEGER)]
    raw_bytes: Annotated[int, Field(ge=1, le=MOST_RAW_BYTES)]
    stored_bytes: Annotated[int, Field(ge=1, le=MOST_STORED_BYTES)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    head: LedgerHead | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Segment:
        if self.topic in {".", ".."} or not TOPIC.fullmatch(self.topic):
            raise ValueError("topic is not a topic's name")
        if not self.begin <= self.first <= self.last < self.end:
            raise ValueError("begin, first, last and end are not in this order")
        if self.count > self.last - self.first + 1:
            raise ValueError("count is more than fits between first and last")
        return self

    @property
    def name(self) -> str:
        """Where the file lies in the archive: derived, never read."""
        span = f"{self.first:020d}-{self.last:020d}-{self.sha256[:16]}"
        return f"segments/{self.topic}/{self.partition}/{span}.jsonl.gz"


class SegmentBuilder:
    """Takes the records of one topic partition, compressing them as they come."""

    def __init__(self, topic: str, partition: int, begin: int, *, has_head: bool) -> None:
        """`begin`: the offset that is covered first; `has_head`: the topic is one of the ledger."""
        self._topic, self._partition, self._begin = topic, partition, begin
        self._has_head = has_head
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        self._parts = bytearray()
        self._first: StoredRecord | None = None
        self._last: StoredRecord | None = None
        self._times = (_MOST_INTEGER, -1)
        self.count = 0
        self.raw_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Memory that it takes, about."""
        return len(self._parts) + COMPRESSOR_BYTES

    @property
    def next_offset(self) -> int:
        """The offset behind the last record that was taken."""
        return self._begin if self._last is None else self._last.offset + 1

    def add(self, record: StoredRecord) -> None:
        """Take the next record, of a higher offset than the one before."""
        line = write_record(record)
        self._parts += self._compressor.compress(line)
        self._first = self._first or record
        self._last = record
        self._times = min(self._times[0], record.timestamp_ms), max(self._times[1], record.timestamp_ms)
        self.count += 1
        self.raw_bytes += len(line)

    def close(self, end: int) -> tuple[Segment, bytes]:
        """The segment, and its file's bytes. `end`: the first offset that it does not cover. At least one
        record was taken."""
        assert self._first is not None  # noqa: S101 - see above
        assert self._last is not None  # noqa: S101 - see above
        data = bytes(self._parts + self._compressor.flush())
        segment = Segment(
            topic=self._topic,
            partition=self._partition,
            begin=self._begin,
            end=end,
            first=self._first.offset,
            last=self._last.offset,
            count=self.count,
            first_ms=self._times[0],
            last_ms=self._times[1],
            raw_bytes=self.raw_bytes,
            stored_bytes=len(data),
            sha256=sha256(data).hexdigest(),
            head=read_head(self._last.value) if self._has_head else None,
        )
        return segment, data


def read_head(value: bytes | None) -> LedgerHead | None:
    """The number and hash that a ledger record gives itself; None for what is no such record."""
    try:
        fields = orjson.loads(value or b"null")
        return LedgerHead(sequence=fields["sequence"], event_hash=fields["event_hash"])
    except (ValueError, TypeError, KeyError):
        return None


def write_record(record: StoredRecord) -> bytes:
    """One line of the file, with its end."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": None if record.key is None else base64.b64encode(record.key).decode(),
        "value": None,
    }
    if record.value is not None:
        try:
            fields["value"] = record.value.decode()
        except UnicodeDecodeError:
            fields["value_base64"] = base64.b64encode(record.value).decode()
    fields["headers"] = [_write_header(*header) for header in record.headers]
    return orjson.dumps(fields) + b"\n"


def _write_header(name: str, value: bytes | None) -> list[str | None]:
    if value is None:
        return [name, None]
    try:
        return [name, value.decode()]
    except UnicodeDecodeError:
        return [name, None, base64.b64encode(value).decode()]


def read_record(line: bytes) -> StoredRecord:
    """The record of a line. Raises ValueError, TypeError or KeyError for what no builder writes."""
    fields = orjson.loads(line)
    if not isinstance(fields, dict) or not fields.keys() <= _FIELDS:
        raise TypeError("not an object with the fields of a record")
    numbers = tuple(fields[name] for name in ("partition", "offset", "timestamp"))
    if not (isinstance(fields["topic"], str) and all(type(number) is int for number in numbers)):
        raise TypeError("topic, partition, offset or timestamp has the wrong type")
    key = fields["key"]
    partition, offset, timestamp_ms = numbers
    return StoredRecord(
        fields["topic"],
        partition,
        offset,
        timestamp_ms,
        None if key is None else _decode(key),
        _read_value(fields),
        tuple(_read_header(field) for field in fields["headers"]),
    )


_FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "value_base64", "headers"})


def _read_value(fields: dict[str, Any]) -> bytes | None:
    text = fields["value"]
    if "value_base64" in fields:
        if text is not None:
            raise TypeError("value and value_base64 are both there")
        return _decode(fields["value_base64"])
    if text is not None and not isinstance(text, str):
        raise TypeError("value is no text")
    return None if text is None else text.encode()


def _read_header(value: Any) -> tuple[str, bytes]:
    """Kafka's headers may lack a value; the type of `StoredRecord` says otherwise, as aiokafka's does."""
    name, text, *encoded = value
    if not isinstance(name, str) or len(encoded) > 1 or not (text is None or isinstance(text, str)):
        raise TypeError("a header is not [name, text] or [name, null, base64]")
    if encoded:
        return name, _decode(encoded[0])
    return name, None if text is None else text.encode()  # type: ignore[return-value]


def _decode(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("no base64 text")
    return base64.b64decode(text, validate=True)


def read_segment(segment: Segment, data: bytes) -> Iterator[StoredRecord]:
    """The records of a segment's file, held against the manifest while they come; more memory than for the
    longest line is not taken. Raises ArchiveDamaged."""
    name = segment.name
    if len(data) != segment.stored_bytes or sha256(data).hexdigest() != segment.sha256:
        raise ArchiveDamaged(f"{name}: the file's SHA-256 is not that of the manifest")
    count, before = 0, segment.first - 1
    for line in _read_lines(segment, data):
        try:
            record = read_record(line)
        except (ValueError, TypeError, KeyError) as error:
            raise ArchiveDamaged(f"{name}: line {count + 1} is not a record: {error!r}"[:500]) from None
        if write_record(record) != line + b"\n":
            raise ArchiveDamaged(f"{name}: line {count + 1} is not as an archiver writes it")
        if (record.topic, record.partition) != (segment.topic, segment.partition):
            raise ArchiveDamaged(f"{name}: line {count + 1} is of another topic or partition")
        if not before < record.offset <= segment.last:
            raise ArchiveDamaged(f"{name}: line {count + 1}: offset {record.offset} is out of order")
        before, count = record.offset, count + 1
        yield record
    if count != segment.count or before != segment.last:
        raise ArchiveDamaged(f"{name}: {count} records up to offset {before}, not as the manifest says")


def _read_lines(segment: Segment, data: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP)
    raw, left, size, at = 0, [b""], 0, 0
    pending = data[:0]
    try:
        while not unpacker.eof:
            if not pending:
                pending, at = data[at : at + _STEP], at + _STEP
                if not pending:
                    raise ArchiveDamaged(f"{segment.name}: the file ends in the middle")
            unpacked = unpacker.decompress(pending, _STEP)
            pending = unpacker.unconsumed_tail
            raw += len(unpacked)
            if raw > segment.raw_bytes:
                raise ArchiveDamaged(f"{segment.name}: it unpacks to more than the manifest says")
            *lines, rest = unpacked.split(b"\n")
            if lines:
                yield b"".join([*left, lines[0]])
                yield from lines[1:]
                left, size = [], 0
            left.append(rest)
            size += len(rest)
            if size > MOST_LINE_BYTES:
                raise ArchiveDamaged(f"{segment.name}: a line is longer than any record")
    except zlib.error as error:
        raise ArchiveDamaged(f"{segment.name}: not gzip: {error}") from None
    if size or raw != segment.raw_bytes or unpacker.unused_data or at < len(data):
        raise ArchiveDamaged(f"{segment.name}: it does not end as the manifest says")
