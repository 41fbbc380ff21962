"""A verdict as it was recorded: its value in the ledger, read strictly."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from app.core.strict import first_error
from topics.json_text import parse
from topics.records import Verdict
from topics.unreadable import Unreadable


class NotAVerdict(Exception):
    """The value is no Verdict record; the message has the path and the reason."""


def recorded_verdict(raw: bytes) -> dict[str, Any]:
    """The record's fields by wire name. Raises NotAVerdict."""
    document = parse(raw)
    if isinstance(document, Unreadable):
        raise NotAVerdict(f"{document.path}: {document.message}")
    try:
        Verdict.model_validate(document)
    except ValidationError as error:
        raise NotAVerdict(first_error(error)) from None
    fields: dict[str, Any] = document
    return fields
