"""A decision as it was recorded: its value in the ledger, read strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from app.core.strict import first_error
from topics.catalog import MEMORY_DECISIONS, QUALITY_DECISIONS, VERDICTS
from topics.json_text import parse
from topics.records import MemoryDecision, QualityDecision, Verdict
from topics.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

MODELS: Mapping[str, type[Verdict | MemoryDecision | QualityDecision]] = {
    VERDICTS: Verdict,
    MEMORY_DECISIONS: MemoryDecision,
    QUALITY_DECISIONS: QualityDecision,
}


class NotADecision(Exception):
    """The value is no record of a decision; the message has the path and the reason."""


def recorded_decision(topic: str, raw: bytes) -> dict[str, Any]:
    """The fields, by wire name, of a record of `topic`: one of MODELS. Raises NotADecision."""
    document = parse(raw)
    if isinstance(document, Unreadable):
        raise NotADecision(f"{document.path}: {document.message}")
    try:
        MODELS[topic].model_validate(document)
    except ValidationError as error:
        raise NotADecision(first_error(error)) from None
    fields: dict[str, Any] = document
    return fields
