"""From raw bytes to what the chain needs of a record: number, links, its computed hash, its input."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .strict_json import SAFE_INTEGER, NotStrict, canonical, read_object

if TYPE_CHECKING:
    from .located import Located

_REQUIRED = ("schema", "partition", "sequence", "prev_hash", "event_hash", "input")


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where the decided input lies, and the broker's time of it, None where the record does not say."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as the chain sees it; `at` topic and offset are where it lies."""

    sequence: int
    previous: str
    hash: str
    topic: str
    offset: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A readable record: entry, fields, coordinates of its input, and the hash that it should carry."""

    entry: Entry
    fields: dict[str, Any]
    input: Coordinates | None
    computed_hash: str


def open_record(located: Located) -> Opened:
    """Raises NotStrict for a record that is not strict JSON or lacks what the chain needs."""
    if located.value is None:
        raise NotStrict("the record has no value")
    fields, plain = read_object(located.value)
    if absent := [name for name in _REQUIRED if name not in fields]:
        raise NotStrict(f"the record lacks {', '.join(absent)}")
    entry = _entry(fields, located)
    source = _coordinates(fields["input"])
    sealed = {name: value for name, value in fields.items() if name != "event_hash"}
    digest = hashlib.sha256(canonical(sealed, plain=plain)).hexdigest()
    return Opened(entry, fields, source, f"sha256:{digest}")


def _entry(fields: dict[str, Any], located: Located) -> Entry:
    sequence = _whole(fields["sequence"], "sequence", least=1)
    _whole(fields["partition"], "partition")
    previous, own = (_text(fields[name], name) for name in ("prev_hash", "event_hash"))
    return Entry(sequence, previous, own, located.topic, located.offset)


def _coordinates(value: Any) -> Coordinates | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise NotStrict("input is neither an object nor null")
    return Coordinates(
        _text(value.get("topic"), "input.topic"),
        _whole(value.get("partition"), "input.partition"),
        _whole(value.get("offset"), "input.offset"),
        _whole(value["timestamp"], "input.timestamp") if "timestamp" in value else None,
    )


def _whole(value: Any, name: str, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= SAFE_INTEGER:
        raise NotStrict(f"{name} is not a whole number of at least {least}")
    return value


def _text(value: Any, name: str) -> str:
    if not (isinstance(value, str) and value.isascii()):
        raise NotStrict(f"{name} is not a string of ASCII")
    return value
