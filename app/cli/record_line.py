"""A record in one line for people, or as one JSON value for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.cli import retrieval_line
from app.cli.output import shown

if TYPE_CHECKING:
    from app.adapters.kafka_read import StoredRecord

_COLOURS = retrieval_line.COLOURS | {
    "allowed": "green",
    "denied": "bold red",
    "needs_human": "yellow",
    "allow": "green",
    "reject": "bold red",
    "quarantine": "yellow",
    "quarantine_entered": "yellow",
    "quarantine_approved": "green",
    "quarantine_rejected": "red",
    "quarantine_expired": "red",
    "quarantine_evicted": "red",
}
_SUBJECTS = (
    "action_id",
    "memory_id",
    "write_id",
    "subject_id",
    "subject",
    "dead_letter_id",
    "item_id",
    "report_id",
    "request_id",
)
_REASONS = (
    "blockReason",
    "reason",
    "message",
    "toolName",
    "tool_name",
    "rows_affected",
    "decision",
    "justification",
    "content",
)
_DECISION = "sluice/memory_decision/v1"
LONGEST = 80
"""Characters of a memory's content in its line."""


def as_json(record: StoredRecord, topic: str) -> dict[str, Any]:
    """{topic, partition, offset, timestamp (ms), key, value}; a value that is not JSON comes as text."""
    return {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _parsed(record.value),
    }


def as_line(record: StoredRecord, topic: str) -> str:
    """Time, topic, session, subject, verdict, gate and reason, as far as the record has them; rich markup.

    Of a retrieved item its outcome, flags and reason; a body is never shown.
    """
    fields = _parsed(record.value)
    time = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    head = f"[dim]{time} {record.partition}/{record.offset}[/] {shown(topic.removeprefix('gate.')):<16}"
    if not isinstance(fields, dict):
        size = len(record.value or b"")
        return f"{head} {shown(_text(record.key))} [red]not a JSON object[/], {size} bytes"
    session = shown(fields.get("session_id") or "-")
    subject = shown(_first(fields, _SUBJECTS) or "-")
    word, reason = retrieval_line.told(fields) or (_kind(fields), _reason(fields))
    again = " (again)" if fields.get("duplicate_of") else ""
    return f"{head} {session} {subject} {_coloured(word)}{again} {shown(reason)}".rstrip()


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word)
    return shown(word) if colour is None else f"[{colour}]{shown(word)}[/]"


def _kind(fields: dict[str, Any]) -> str:
    """What was decided, or what kind of record it is."""
    verdict, schema = fields.get("verdict"), fields.get("schema")
    if isinstance(verdict, str):
        return verdict
    if schema == _DECISION:
        return str(fields.get("action"))
    return schema.split("/")[1] if isinstance(schema, str) and "/" in schema else ""


def _reason(fields: dict[str, Any]) -> str:
    reason = _first(fields, _REASONS)
    before = [gate.get("gate") for gate in _gates(fields) if gate.get("passed") is False][-1:]
    before += [fields[name] for name in ("approver_id", "how") if fields.get(name) is not None]
    said = "" if reason is None else str(reason)
    if reason is fields.get("content") and len(said) > LONGEST:
        said = said[:LONGEST] + "…"
    return _trust(fields) + ": ".join(str(part) for part in [*before, said] if part)


def _trust(fields: dict[str, Any]) -> str:
    score = fields.get("trustScore")
    total = score.get("total") if isinstance(score, dict) else None
    return f"trust {total}, " if isinstance(total, int | float) else ""


def _gates(fields: dict[str, Any]) -> list[dict[str, Any]]:
    gates = fields.get("gateResults")
    return [gate for gate in gates if isinstance(gate, dict)] if isinstance(gates, list) else []


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _parsed(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return _text(value)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")
