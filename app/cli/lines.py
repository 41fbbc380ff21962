"""Lines of a file to records to publish, each held against its topic's model first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.adapters.kafka_publish import Outgoing
from topics.headers import input_headers
from topics.reading import Unreadable, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from topics.catalog import Topic
    from topics.records.base import Record

SOURCE = "/sluice/publish"
"""ce_source of what this command publishes."""
_ID_FIELDS = ("action_id", "write_id", "subject_id", "report_id", "request_id")


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a line is no record of the topic."""

    why: Unreadable


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file: its number from 1, and the record in it or why there is none."""

    number: int
    content: Outgoing | Invalid


def lines_of(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that is not blank; a value is the line without its line feed."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def checked(numbered: Iterable[tuple[int, bytes]], topic: Topic, key_field: str, time: str) -> Iterator[Line]:
    """Each line as the worker will read it. `time` is RFC 3339, for the headers."""
    model = topic.records[0]
    for number, value in numbered:
        record = read(model, value)
        if isinstance(record, Unreadable):
            yield Line(number, Invalid(record))
        else:
            headers = input_headers(_id_of(record), model.__name__, SOURCE, time)
            yield Line(number, Outgoing(best_key(value, key_field), value, tuple(headers)))


def unchecked(numbered: Iterable[tuple[int, bytes]], key_field: str) -> Iterator[Line]:
    """Each line as it is, without headers."""
    for number, value in numbered:
        yield Line(number, Outgoing(best_key(value, key_field), value, ()))


def best_key(value: bytes, field: str) -> bytes | None:
    """The field's value as a key where the line is an object that has it as a string, else None."""
    try:
        fields: Any = json.loads(value)
        key = fields.get(field) if isinstance(fields, dict) else None
        return key.encode() if isinstance(key, str) else None
    except (ValueError, RecursionError):
        return None


def _id_of(record: Record) -> str:
    return next(str(getattr(record, name)) for name in _ID_FIELDS if hasattr(record, name))
