"""A record in one line for people, in columns on a terminal, or as one JSON value for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from sluice.cli.ledger.record_words import COLOURS, describe_record, read_first
from sluice.cli.output import clean, make_visible
from sluice.core.decide.kinds import KINDS
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from sluice.adapters.kafka.kafka_read import StoredRecord

_SUBJECTS = ("item_id", *dict.fromkeys(kind.subject for kind in reversed(KINDS)), "subject", "dead_letter_id")
"""The first of these fields that a record has names what it is about: of an item's decision, which names its
request too, the item; of a decision on a memory, which names the write too, the memory."""


LONGEST_LINE = 16_384
"""Characters of a JSON line, unless all of it is asked for."""
LONGEST_TEXT = 256
"""Characters of each text in a line that would be longer."""
_NARROW = 100
"""Columns of a terminal below which a line does without the topic."""


class RecordLine(NamedTuple):
    """What a line says of a record; texts are as the record has them, not escaped."""

    time: str
    coordinates: str
    topic: str
    session: str
    subject: str
    word: str
    again: str
    reason: str


def build_json(record: StoredRecord, topic: str, *, whole: bool = True) -> dict[str, Any]:
    """{topic, partition, offset, timestamp (ms), key, value}; a value that is not JSON comes as text.

    Unless `whole`, a long record's texts are cut and `cut` says so: one line of a watch may be 4 MB.
    """
    value = _parse(record.value)
    fields = {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _decode_text(record.key),
        "value": value,
    }
    if whole or len(json.dumps(value)) <= LONGEST_LINE:
        return fields
    shorter = _shorten(value)
    if isinstance(shorter, dict) and len(json.dumps(shorter)) > LONGEST_LINE:
        shorter = {name: member for name, member in shorter.items() if not isinstance(member, list | dict)}
    return {**fields, "value": shorter, "cut": True}


def _shorten(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… {count_noun(len(value) - LONGEST_TEXT, 'character')} more"
    if isinstance(value, dict):
        return {name: _shorten(member) for name, member in value.items()}
    return [_shorten(item) for item in value] if isinstance(value, list) else value


def write_line(record: StoredRecord, topic: str) -> str:
    """Time, topic, session, subject, verdict, gate and reason, as far as the record has them; rich markup.

    Of a retrieved item its outcome, flags and reason; a body is never shown.
    """
    line = read_line(record, topic)
    head = f"[dim]{line.time} {line.coordinates}[/] {clean(line.topic):<16}"
    if not line.word:
        return f"{head} {clean(line.session)} [red]{clean(line.reason)}[/]"
    rest = f"{clean(line.session)} {clean(line.subject)} {_colour(line.word)}{line.again}"
    return f"{head} {rest} {clean(line.reason)}".rstrip()


def write_columns(record: StoredRecord, topic: str, width: int) -> Text:
    """The record's line in columns that hold in `width` characters; what is too long ends in "…"."""
    line = read_line(record, topic)
    word = line.word + line.again or "unreadable"
    session, subject = _divide_width(width)
    columns = [(line.time[:8], 8, "dim"), (line.coordinates, 7, "dim")]
    columns += [(line.topic, 11, "dim")] if width >= _NARROW else []
    columns += [
        (word, 12, COLOURS.get(line.word, "")),
        (line.session, session, ""),
        (line.subject, subject, ""),
    ]
    text = Text(no_wrap=True, overflow="ellipsis")
    for value, wide, style in columns:
        cell = make_visible(value)
        cell.stylize(style)
        cell.truncate(wide, overflow="ellipsis", pad=True)
        text += cell + Text(" ")
    text += make_visible(line.reason)
    text.truncate(width, overflow="ellipsis")
    return text


def write_heading(width: int) -> Text:
    """The columns' names."""
    session, subject = _divide_width(width)
    names = [("time", 8), ("place", 7), *([("topic", 11)] if width >= _NARROW else []), ("decided", 12)]
    names += [("session", session), ("about", subject), ("why", 0)]
    return Text(" ".join(f"{name:<{wide}}" for name, wide in names).rstrip(), style="bold")


def _divide_width(width: int) -> tuple[int, int]:
    """Return how wide the columns of session and subject are."""
    return max(8, width // 8), max(12, width // 5)


def read_line(record: StoredRecord, topic: str) -> RecordLine:
    """The line of a record; `word` is empty if the record is not a JSON object."""
    fields = _parse(record.value)
    time = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    location, short = f"{record.partition}/{record.offset}", topic.removeprefix("gate.")
    if not isinstance(fields, dict):
        size = count_noun(len(record.value or b""), "byte")
        key = _decode_text(record.key) or "-"
        return RecordLine(time, location, short, key, "", "", "", f"not a JSON object, {size}")
    session = str(fields.get("session_id") or "-")
    subject = str(read_first(fields, _SUBJECTS) or "-")
    word, reason = describe_record(fields)
    again = " (again)" if fields.get("duplicate_of") else ""
    return RecordLine(time, location, short, session, subject, word, again, reason)


def _colour(word: str) -> str:
    colour = COLOURS.get(word)
    return clean(word) if colour is None else f"[{colour}]{clean(word)}[/]"


def read_fields(record: StoredRecord) -> dict[str, Any]:
    """The record's fields; empty if it is not a JSON object."""
    fields = _parse(record.value)
    return fields if isinstance(fields, dict) else {}


def _parse(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return _decode_text(value)


def _decode_text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")
