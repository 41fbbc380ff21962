"""What goes into an audit package: the ledger is read once, and it is known which records, which inputs, and
how far (docs/audit-package.md)."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from sluice.core.decide.kinds import KINDS
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.rerun.walk import DECIDED
from sluice_topics.catalog import BUNDLES, CATALOG, REGISTRY, TREE_HEADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.adapters.archive.record_sources import RecordSource
    from sluice.adapters.kafka.kafka_read import StoredRecord

By = Literal["session", "agent", "decision", "since"]
LEDGER = tuple(topic.name for topic in CATALOG if topic.ledger)
INPUTS = tuple(kind.topic for kind in KINDS if kind.session)
CONTROL = (REGISTRY, BUNDLES)
_POLICY_EVENT = "sluice/policy_in_force/v1"
_NO_HASH = bytes(32)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records: of a session, of an agent, of a decision (by any of its ids), or since a time (ms since
    1970): those that the broker took, or that were decided, then or later. `only_selected`: of other sessions
    the hashes alone."""

    by: By
    value: str | int
    only_selected: bool = False

    def has_record(self, fields: Mapping[str, Any], written_ms: int) -> bool:
        """Whether a ledger record is one of it."""
        if self.by == "since":
            since = int(self.value)
            return written_ms >= since or _read_decided(fields.get("decided_at")) >= since
        if self.by == "decision":
            return any(name.endswith("_id") and other == self.value for name, other in fields.items())
        return bool(fields.get(f"{self.by}_id") == self.value)


_MOST_ABSENT = 1_000_000
"""Numbers of a partition without a record: more are of a forger, and a package has 32 bytes for each."""


class NothingSelected(Exception):
    """No record is of the selection, the message says up to where was looked; or far fewer are there than a
    head, or a record's number, states."""


class NewestHead(NamedTuple):
    """The newest tree head, as the package's manifest names it."""

    number: int
    digest: str
    size: int
    sizes: tuple[int, ...]


class _Row(NamedTuple):
    """A ledger record in short. `input`: base topic and offset."""

    sequence: int
    session: str | None
    is_selected: bool
    is_policy: bool
    hash: bytes
    input: tuple[str, int] | None


@dataclass
class PlannedPartition:
    """A partition of the package. `taken`: numbers of the records before `complete_from` that are in it; from
    there on all are. `named`: offsets of inputs by base topic."""

    number: int
    size: int
    complete_from: int
    taken: frozenset[int]
    hashes: bytes
    selected: int
    named: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    decided: dict[str, int] = field(default_factory=dict)

    def has_record(self, value: bytes | None) -> bool:
        """Whether a ledger record of this partition is in the package; what cannot be read is, where all
        are."""
        fields = _read_fields(value)
        if fields is None:
            return self.complete_from == 1
        sequence = fields["sequence"]
        return bool(self.complete_from <= sequence <= self.size or sequence in self.taken)

    def has_input(self, base: str, offset: int) -> bool:
        """Whether an input is."""
        return offset in self.named[base] or offset < self.decided.get(base, 0)


@dataclass(frozen=True, slots=True)
class PackagePlan:
    """A package before it is written."""

    selection: Selection
    head: NewestHead | None
    partitions: dict[int, PlannedPartition]


async def plan_package(source: RecordSource, prefix: str, selection: Selection) -> PackagePlan:
    """Read heads and ledger. It takes some 0.3 KB of memory for a record. Raises NothingSelected, and as the
    source."""
    head = await _read_newest_head(source, prefix)
    decided = await source.fetch_decided()
    rows: dict[int, list[_Row]] = defaultdict(list)
    async for batch in source.read_records([f"{prefix}{base}" for base in LEDGER]):
        for record in batch:
            row = _read_row(record, selection)
            if row is not None:
                rows[record.partition].append(row)
    sizes = _find_sizes(head, rows)
    for number, size in sizes.items():
        if size > len(rows[number]) + _MOST_ABSENT:
            stated = f"{size} records of partition {number} are stated, {len(rows[number])} are there"
            raise NothingSelected(f"the ledger is not what it states: {stated} (sluice ledger verify)")
    selected = {
        number: sum(row.is_selected and row.sequence <= size for row in rows[number])
        for number, size in sizes.items()
    }
    if not any(selected.values()):
        where = "the ledger" if head is None else f"the ledger up to head {head.number}, the newest one,"
        raise NothingSelected(f"{where} has no record of {selection.by} {selection.value}")
    whole = selection.by in {"agent", "since"}
    partitions = {
        number: _plan_partition(number, size, rows[number], selection)
        for number, size in sizes.items()
        if whole or selected[number]
    }
    for number, part in partitions.items():
        _plan_decided(part, rows[number], decided, prefix)
    return PackagePlan(selection, head, partitions)


def _find_sizes(head: NewestHead | None, rows: Mapping[int, list[_Row]]) -> dict[int, int]:
    """Of each partition the number of its last record in the package: what the newest head states."""
    if head is not None:
        return dict(enumerate(head.sizes))
    last = {number: max(row.sequence for row in of_part) for number, of_part in rows.items()}
    return {number: last.get(number, 0) for number in range(max(last, default=-1) + 1)}


async def _read_newest_head(source: RecordSource, prefix: str) -> NewestHead | None:
    """The last head of the topic that can be read; who signed it is for the verifier to say."""
    newest: NewestHead | None = None
    async for batch in source.read_records([f"{prefix}{TREE_HEADS}"]):
        for record in batch:
            newest = _read_head(record.value) or newest
    return newest


def _read_head(value: bytes | None) -> NewestHead | None:
    try:
        payload = base64.b64decode(orjson.loads(value or b"null")["payload"])
        fields = orjson.loads(payload)
        sizes = tuple(int(part["size"]) for part in fields["partitions"])
        digest = f"sha256:{sha256(payload).hexdigest()}"
        return NewestHead(fields["number"], digest, fields["size"], sizes)
    except (ValueError, TypeError, KeyError):
        return None


def _read_fields(value: bytes | None) -> dict[str, Any] | None:
    try:
        fields = orjson.loads(value or b"null")
    except ValueError:
        return None
    is_record = isinstance(fields, dict) and type(fields.get("sequence")) is int
    return fields if is_record else None


def _read_row(record: StoredRecord, selection: Selection) -> _Row | None:
    """None for what is no ledger record."""
    fields = _read_fields(record.value)
    if fields is None:
        return None
    session, source, digest = fields.get("session_id"), fields.get("input"), str(fields.get("event_hash"))
    named = source if isinstance(source, dict) and type(source.get("offset")) is int else None
    return _Row(
        fields["sequence"],
        session if isinstance(session, str) else None,
        selection.has_record(fields, record.timestamp_ms),
        fields.get("schema") == _POLICY_EVENT,
        _read_hash(digest),
        None if named is None else (str(named.get("topic")), named["offset"]),
    )


def _read_decided(value: Any) -> int:
    """When a record was decided, which its hash covers and not only the broker says; 0 for no time."""
    try:
        return read_milliseconds(value)
    except (ValueError, TypeError, AttributeError):
        return 0


def _read_hash(digest: str) -> bytes:
    try:
        raw = bytes.fromhex(digest.removeprefix("sha256:"))
    except ValueError:
        return _NO_HASH
    return raw if len(raw) == len(_NO_HASH) else _NO_HASH


def _plan_partition(number: int, size: int, rows: list[_Row], selection: Selection) -> PlannedPartition:
    inside = [row for row in rows if row.sequence <= size]
    selected = [row for row in inside if row.is_selected]
    complete_from = 1
    if selection.only_selected:
        complete_from = size + 1
    elif selection.by == "since":
        complete_from = min((row.sequence for row in selected), default=size + 1)
    sessions = {row.session for row in inside if row.is_selected or row.sequence >= complete_from} - {None}
    last_before = complete_from - 1 if selection.by == "since" else 0
    taken = frozenset(
        row.sequence
        for row in inside
        if row.sequence < complete_from
        and (row.is_selected or row.is_policy or row.session in sessions or row.sequence == last_before)
    )
    part = PlannedPartition(
        number, size, complete_from, taken, _join_hashes(inside, complete_from), len(selected)
    )
    for row in inside:
        if row.input is not None and (row.sequence >= complete_from or row.sequence in taken):
            part.named[row.input[0]].add(row.input[1])
    return part


def _join_hashes(rows: list[_Row], complete_from: int) -> bytes:
    """The event hashes of the records before a number, one after the other."""
    by_number = {row.sequence: row.hash for row in rows if row.sequence < complete_from}
    return b"".join(by_number.get(sequence, _NO_HASH) for sequence in range(1, complete_from))


def _plan_decided(
    part: PlannedPartition, rows: list[_Row], decided: Mapping[tuple[str, int], int], prefix: str
) -> None:
    """How far every input was decided, by a record that is in the package: below what the workers had
    committed, and below the first that is answered behind the package's end."""
    if part.complete_from > 1:
        return
    later: dict[str, int] = {}
    for row in rows:
        if row.sequence > part.size and row.input is not None:
            topic, offset = row.input
            later[topic] = min(offset, later.get(topic, offset))
    for base in DECIDED:
        committed = decided.get((f"{prefix}{base}", part.number), 0)
        last = max(part.named[base], default=-1) + 1
        part.decided[base] = min(committed, last, later.get(base, committed))


def count_gone(part: PlannedPartition, there: Mapping[str, Counter[int]]) -> Iterator[tuple[str, int]]:
    """By base topic how many inputs that records name were not there any more. `there`: how many were, by
    base topic and partition."""
    for base, offsets in sorted(part.named.items()):
        absent = len(offsets) - there[base][part.number]
        if absent:
            yield base, absent
