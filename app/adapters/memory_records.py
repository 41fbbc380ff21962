"""Records of the ledger on memories as they were read: what they say, and which memory they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from app.core.memory.from_ledger import NotInLedgerError, decision_in, event_in
from topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.adapters.kafka_read import StoredRecord
    from app.core.memory.from_ledger import Event
    from topics.records import MemoryDecision

T = TypeVar("T")


def about(memory_id: str, value: bytes) -> dict[str, Any] | None:
    """The record's fields if it is on this memory. One on a derived memory holds the id too, in its view."""
    if f'"memory_id":"{memory_id}"'.encode() not in value:
        return None
    fields = parse(value)
    return fields if isinstance(fields, dict) and fields.get("memory_id") == memory_id else None


def event_of(record: StoredRecord) -> Event:
    """The event of gate.quarantine in a record. Raises NotInLedgerError with its place."""
    return _placed(event_in, record, "event of the quarantine")


def decision_of(record: StoredRecord) -> MemoryDecision:
    """The decision of gate.memory.decisions in a record. Raises NotInLedgerError with its place."""
    return _placed(decision_in, record, "decision on a memory")


def _placed(read: Callable[[bytes | None], T], record: StoredRecord, what: str) -> T:
    try:
        return read(record.value)
    except NotInLedgerError as error:
        place = f"{record.topic}:{record.partition}:{record.offset}"
        raise NotInLedgerError(f"{place} is no {what}: {error}") from None
