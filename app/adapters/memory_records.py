"""Which memory a record of the ledger is about."""

from __future__ import annotations

from typing import Any

from topics.json_text import parse


def about(memory_id: str, value: bytes) -> dict[str, Any] | None:
    """The record's fields if it is on this memory. One on a derived memory holds the id too, in its view."""
    if f'"memory_id":"{memory_id}"'.encode() not in value:
        return None
    fields = parse(value)
    return fields if isinstance(fields, dict) and fields.get("memory_id") == memory_id else None
