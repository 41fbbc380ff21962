"""Files of records: lines as the inputs that a worker would find in its topics, and an exported ledger.

A line of inputs is a record of the kind that one of its fields marks (`marked_by` in the table of kinds),
else an action. A line that is only `{"at": TIME}` is the broker's time of all records below it. Offsets are
line numbers from 1, the partition is 0.

An exported ledger (sluice/verifier/export.py describes the format) is read for its values alone. The verifier
has a reader of its own, which checks places and keys too; this one is for a report over millions of lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.decide.kinds import kind_of
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.input_record import InputRecord
from sluice.core.reports.report_tally import NotADecisionError
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_CLOCK = "at"


class ClockError(Exception):
    """A line sets a time that cannot be read; the message names the line."""


def read_input_records(lines: Iterable[bytes], at_ms: int) -> Iterator[InputRecord]:
    """Each record of the lines, blank ones left out; `at_ms` is the time of the first. Raises ClockError."""
    for number, line in enumerate(lines, start=1):
        value = line.rstrip(b"\n")
        if not value.strip():
            continue
        fields = parse(value)
        if isinstance(fields, dict) and fields.keys() == {_CLOCK}:
            at_ms = _read_time(fields[_CLOCK], number)
        else:
            yield _read_input_record(number, value, fields, at_ms)


def _read_input_record(number: int, value: bytes, fields: Any, at_ms: int) -> InputRecord:
    record = fields if isinstance(fields, dict) else {}
    session = record.get("session_id")
    key = session.encode() if isinstance(session, str) else None
    return InputRecord(kind_of(record).topic, 0, number, at_ms, key, value)


def _read_time(value: Any, number: int) -> int:
    try:
        return read_milliseconds(value)
    except (TypeError, ValueError) as error:
        raise ClockError(f"line {number}: not a time in UTC: {error}") from None


def read_export(lines: Iterable[bytes], topics: Sequence[str], take: Callable[[str | None], None]) -> None:
    """Hand the value of every record of these topics (base names; any prefix) to `take`, in the file's order.

    Raises NotADecisionError with the line's number, also for a line that is not from an export.
    """
    bases = tuple(topics)
    for number, line in enumerate(lines, start=1):
        try:
            fields = orjson.loads(line)
            if fields["topic"].endswith(bases):
                take(fields["value"])
        except NotADecisionError as error:
            raise NotADecisionError(f"line {number}: {error}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NotADecisionError(f"line {number} is not a line of a ledger export: {error!r}") from None
