"""What became of a review, as the ledger says it: found by the review's own coordinates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from topics.catalog import REVIEWS

if TYPE_CHECKING:
    from app.adapters.kafka_publish import Placed
    from app.adapters.kafka_read import StoredRecord

Word = Literal["approved", "rejected", "expired", "refused", "unreadable"]
TOO_LATE = "expired"
_WORDS: dict[str, Word] = {
    "sluice/quarantine_approved/v1": "approved",
    "sluice/quarantine_rejected/v1": "rejected",
    "sluice/input_refused/v1": "refused",
    "sluice/dead_letter/v1": "unreadable",
}


class Outcome(NamedTuple):
    """`reason` is a code and `message` a sentence; both empty where the review did what it says."""

    word: Word
    reason: str = ""
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether the review counted."""
        return self.word in ("approved", "rejected")


def outcome_of(placed: Placed, record: StoredRecord) -> Outcome | None:
    """What a record says of the review at this place; None where it is about something else, or only says
    that the memory expired: the refusal comes with it."""
    fields = _object(record.value)
    source = fields.get("input")
    if not isinstance(source, dict):
        return None
    if [source.get(name) for name in ("topic", "partition", "offset")] != [
        REVIEWS,
        placed.partition,
        placed.offset,
    ]:
        return None
    word = _WORDS.get(str(fields.get("schema")))
    if word is None:
        return None
    if word in ("approved", "rejected"):
        return Outcome(word)
    reason, message = str(fields.get("reason") or fields.get("code")), str(fields.get("message"))
    return Outcome("expired" if reason == TOO_LATE else word, reason, message)


def _object(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
