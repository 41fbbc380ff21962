"""How log lines are written: as text or as JSON, by one formatter for every logger of the process.

A line has no payload. What our own lines say are ids, places, counts and reasons in this program's words; of
an exception only its type and where it was raised are written, because the text of many has in it what could
not be read. Whatever a library says becomes one line of printable characters within a bound.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Any, Literal

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import TextIO

LogFormat = Literal["lines", "json"]
LONGEST = 8_000
"""Characters of a line's text; the rest is left out."""
MOST_FRAMES = 12
FIELDS = (
    "destination",
    "method",
    "partitions",
    "policy",
    "request_id",
    "route",
    "since",
    "status",
    "took_ms",
    "waits_for",
)
"""What a call may give as `extra`: the fields of a JSON line besides time, level, logger, event and fault."""
_SPEAKING = ("aiokafka", "mode", "faust")
"""The texts of these packages' exceptions name brokers, topics and error codes only."""


def configure_logging(form: LogFormat, level: str, stream: TextIO | None = None) -> None:
    """Write the lines of every logger to standard error: ours from `level` on, others' from WARNING on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(make_formatter(form))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("sluice").setLevel(level)


def make_formatter(form: LogFormat) -> logging.Formatter:
    """A formatter of the standard library's records."""
    is_json = form == "json"
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(FIELDS),
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
            if is_json
            else structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S.%f", utc=False, key="time"),
            _write_fault,
            _bound_event,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(sort_keys=True) if is_json else _render_line,
        ],
    )


def describe_fault(fault: BaseException) -> str:
    """An exception and its causes in one line: types, places, and the text where it cannot be a payload."""
    lines: list[str] = []
    ids: set[int] = set()
    cause: BaseException | None = fault
    while cause is not None and id(cause) not in ids:
        ids.add(id(cause))
        frames = traceback.extract_tb(cause.__traceback__)[-MOST_FRAMES:]
        places = " < ".join(
            f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames)
        )
        text = f": {cause}" if _may_speak(cause) else ""
        lines.append(f"{type(cause).__name__}{text}{f' at {places}' if places else ''}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return " ← ".join(lines)


def _may_speak(fault: BaseException) -> bool:
    return isinstance(fault, OSError) or type(fault).__module__.partition(".")[0] in _SPEAKING


def _write_fault(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    error = event.pop("exc_info", None)
    event.pop("stack_info", None)
    fault = error[1] if isinstance(error, tuple) else error
    if isinstance(fault, BaseException):
        event["fault"] = describe_fault(fault)
    return event


def _bound_event(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in ("event", "fault"):
        if name in event:
            text = str(event[name])
            bound = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
            event[name] = "".join(sign if sign.isprintable() else "·" for sign in bound)
    return event


def _render_line(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    """As `logging` writes it, with comma and milliseconds; fields are in the text already."""
    second, _dot, micros = str(event["time"]).partition(".")
    fault = f" ({event['fault']})" if "fault" in event else ""
    level, name = str(event["level"]).upper(), event["logger"]
    return f"{second},{micros[:3]} {level} {name}: {event['event']}{fault}"
