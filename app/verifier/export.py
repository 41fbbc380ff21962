"""An export of the ledger, for verifying without the broker: one JSON object a line.

`{"topic", "partition", "offset", "timestamp", "key", "value"}`: timestamp is the broker's, in ms; key is
base64 or null; value is the record's text, or null with its bytes in `value_base64` where they are not UTF-8.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from .located import Located

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class NotAnExport(ValueError):
    """A line that no export has; the message names the line."""


def to_line(located: Located, timestamp_ms: int) -> str:
    """One line of the file, without its end."""
    fields: dict[str, Any] = {
        "topic": located.topic,
        "partition": located.partition,
        "offset": located.offset,
        "timestamp": timestamp_ms,
        "key": None if located.key is None else base64.b64encode(located.key).decode(),
        **_value(located.value),
    }
    return json.dumps(fields, ensure_ascii=False)


def from_lines(lines: Iterable[bytes]) -> Iterator[Located]:
    """The records of an export, in its order. Raises NotAnExport at the first line that is none."""
    for number, line in enumerate(lines, start=1):
        try:
            yield _located(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotAnExport(f"line {number} is not a line of a ledger export: {error!r}") from None


def _value(value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {"value": None}
    try:
        return {"value": value.decode("utf-8")}
    except UnicodeDecodeError:
        return {"value": None, "value_base64": base64.b64encode(value).decode()}


def _located(fields: dict[str, Any]) -> Located:
    topic, partition, offset = fields["topic"], fields["partition"], fields["offset"]
    if not (isinstance(topic, str) and type(partition) is int and type(offset) is int):
        raise TypeError("topic, partition or offset has the wrong type")
    key = fields["key"]
    timestamp_ms = fields["timestamp"]
    if type(timestamp_ms) is not int:
        raise TypeError("timestamp has the wrong type")
    decoded = None if key is None else base64.b64decode(key)
    return Located(topic, partition, offset, decoded, _raw(fields), timestamp_ms)


def _raw(fields: dict[str, Any]) -> bytes | None:
    if "value_base64" in fields:
        return base64.b64decode(fields["value_base64"])
    value = fields["value"]
    return None if value is None else value.encode("utf-8")
