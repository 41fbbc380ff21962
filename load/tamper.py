"""Seeded tampering with a ledger: what an attacker with write access to the topics would try.

Works on records as they lie (each topic-partition in offset order) and gives them back as they would lie
afterwards, with the findings of which at least one must be made. Nothing here touches the last record of a
chain, which a bare chain cannot protect.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import rfc8785

from sluice.verifier.export import Located

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

Records = list[Located]


@dataclass(frozen=True, slots=True)
class Tampered:
    """The ledger afterwards, what was done, and the codes that every verification of it must give."""

    records: Records
    what: str
    codes: frozenset[str]


def alter(records: Records, rng: random.Random) -> Tampered:
    """Change a decision in place."""
    index = _inner(records, rng)
    changed = _change(records[index], _flip(fields_of(records[index])))
    return Tampered(
        _replace(records, index, changed), _describe("altered", records[index]), frozenset({"altered"})
    )


def alter_resealed(records: Records, rng: random.Random) -> Tampered:
    """Change a decision and compute its hash again."""
    index = _inner(records, rng)
    changed = _change(records[index], seal(_flip(fields_of(records[index]))))
    what = _describe("altered and sealed again", records[index])
    return Tampered(_replace(records, index, changed), what, frozenset({"broken_link"}))


def insert(records: Records, rng: random.Random) -> Tampered:
    """Append a forged decision under a number that is taken, linked and sealed like the genuine one."""
    index = _inner(records, rng)
    forged = _change(records[index], seal(_flip(fields_of(records[index]))))
    return Tampered([*records, forged], _describe("forged beside", records[index]), frozenset({"inserted"}))


def delete(records: Records, rng: random.Random) -> Tampered:
    """Leave a record out."""
    index = _inner(records, rng)
    left = [*records[:index], *records[index + 1 :]]
    return Tampered(left, _describe("deleted", records[index]), frozenset({"missing"}))


def swap(records: Records, rng: random.Random) -> Tampered:
    """Let two records of one topic-partition change places."""
    first = rng.choice([i for i in range(len(records)) if _later_in_series(records, i)])
    second = rng.choice(_later_in_series(records, first))
    swapped = _replace(_replace(records, first, records[second]), second, records[first])
    what = f"{_describe('swapped', records[first])} with offset {records[second].offset}"
    return Tampered(swapped, what, frozenset({"out_of_order"}))


def duplicate(records: Records, rng: random.Random) -> Tampered:
    """Append a genuine record once more."""
    index = _inner(records, rng)
    what = _describe("repeated", records[index])
    return Tampered([*records, records[index]], what, frozenset({"duplicate_sequence"}))


def move_session(records: Records, rng: random.Random) -> Tampered:
    """Move every record of one session to another partition."""
    key = records[_inner(records, rng)].key
    partitions = sorted({record.partition for record in records})
    there = next(r.partition for r in records if r.key == key)
    target = rng.choice([p for p in partitions if p != there])
    moved = [replace(record, partition=target) if record.key == key else record for record in records]
    what = f"session {key!r} moved from partition {there} to {target}"
    return Tampered(moved, what, frozenset({"missing", "moved"}))


TAMPERINGS: dict[str, Callable[[Records, random.Random], Tampered]] = {
    "alter": alter,
    "alter_resealed": alter_resealed,
    "insert": insert,
    "delete": delete,
    "swap": swap,
    "duplicate": duplicate,
    "move_session": move_session,
}


def fields_of(record: Located) -> dict[str, Any]:
    """The record's fields; a number beyond 2^53-1 is the double that RFC 8785 takes it for."""
    fields: dict[str, Any] = json.loads(record.value or b"", parse_int=_number)
    return fields


def seal(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields with the event_hash that they ought to have."""
    body = {name: value for name, value in fields.items() if name != "event_hash"}
    return {**body, "event_hash": f"sha256:{hashlib.sha256(rfc8785.dumps(body)).hexdigest()}"}


def relaid(records: Records) -> Records:
    """The records with the offsets that they get when each is appended to its topic-partition in turn."""
    ends: Counter[tuple[str, int]] = Counter()
    laid = []
    for record in records:
        series = (record.topic, record.partition)
        laid.append(replace(record, offset=ends[series]))
        ends[series] += 1
    return laid


def _number(digits: str) -> int | float:
    number = int(digits)
    return number if abs(number) < 2**53 else float(number)


def _inner(records: Records, rng: random.Random) -> int:
    last = Counter[int]()
    for record in records:
        last[record.partition] = max(last[record.partition], fields_of(record)["sequence"])
    inner = [i for i, r in enumerate(records) if fields_of(r)["sequence"] < last[r.partition]]
    return rng.choice(inner)


def _later_in_series(records: Records, index: int) -> list[int]:
    here = records[index]
    series = (here.topic, here.partition)
    return [i for i in range(index + 1, len(records)) if (records[i].topic, records[i].partition) == series]


def _flip(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "decided_at": "1999-12-31T23:59:59.999Z"}


def _change(record: Located, fields: dict[str, Any]) -> Located:
    return replace(record, value=json.dumps(fields).encode())


def _replace(records: Records, index: int, record: Located) -> Records:
    return [*records[:index], record, *records[index + 1 :]]


def _describe(verb: str, record: Located) -> str:
    return f"{verb} {record.topic} partition {record.partition} offset {record.offset}"
