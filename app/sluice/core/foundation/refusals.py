"""The answers to inputs that are not decided on: DeadLetter and InputRefused.

A dead letter keeps an unreadable input verbatim up to a bound, with the place of its error. A refusal answers
a readable input about something unknown or impossible. Neither changes anything.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import dead_letter_id, refusal_id
from sluice_topics.catalog import DEAD_LETTERS, MAX_INPUT_VALUE_BYTES, SESSION_EVENTS

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice_topics.records import ReviewDecision

DEAD_LETTER = "sluice/dead_letter/v1"
INTERNAL_ERROR = "internal_error"
"""The code of an input on which the core itself failed."""
NOT_SEALED: Final = "not_sealed"
"""The code of an input that has a value plain which its sender must seal."""
SEALED_UNMARKED: Final = "sealed_unmarked"
"""The code of an input that has a sealed value where no bundle marks one: people would not see it."""
KEPT_BYTES = MAX_INPUT_VALUE_BYTES
"""Of a larger value the first bytes are kept."""
CLAIMED_IDS = (
    "action_id",
    "agent_id",
    "session_id",
    "write_id",
    "request_id",
    "report_id",
    "subject_id",
    "reported_by",
    "mandate_id",
)
LONGEST_ID = 256


def make_dead_letter(
    input_record: InputRecord, code: str, path: str, message: str, ids: dict[str, str] | None = None
) -> OutRecord:
    """The dead letter of an input that gets no other answer; `ids`: those in it, where it was looked into.
    What should have been sealed is not repeated."""
    value = input_record.value or b""
    most = 0 if code == NOT_SEALED else KEPT_BYTES
    body = {
        "schema": DEAD_LETTER,
        "dead_letter_id": dead_letter_id(input_record.decision_id),
        "topic": input_record.topic,
        "code": code,
        "path": escape_surrogates(path),
        "message": escape_surrogates(message),
        "key": None if input_record.key is None else base64.b64encode(input_record.key).decode(),
        "ids": ids,
        "value_base64": base64.b64encode(value[:most]).decode(),
        "value_size": len(value),
        "truncated": len(value) > most,
        "decided_at": rfc3339(input_record.timestamp_ms),
        "input": input_record.coordinates(),
    }
    return OutRecord(DEAD_LETTERS, "DeadLetter", body, subject_of(input_record))


def ids_in(value: bytes | None) -> dict[str, str]:
    """The ids that an input claims to have, by their wire names, as far as they can be read: so its sender
    knows it again. Empty where the value is no JSON object, or too large to be looked into."""
    try:
        record = orjson.loads(value) if value and len(value) <= MAX_INPUT_VALUE_BYTES else None
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(record, dict):
        return {}
    named = ((name, record.get(name)) for name in CLAIMED_IDS)
    return {name: text for name, text in named if isinstance(text, str) and 0 < len(text) <= LONGEST_ID}


def subject_of(input_record: InputRecord) -> str:
    """The session that the message's key names; empty if the key is not UTF-8."""
    try:
        return (input_record.key or b"").decode()
    except UnicodeDecodeError:
        return ""


def escape_surrogates(text: str) -> str:
    """The text with lone surrogates escaped, so that a dead letter can always be written."""
    return text.encode("utf-8", "backslashreplace").decode()


INPUT_REFUSED = "sluice/input_refused/v1"


class Objection(NamedTuple):
    """Why a readable input does not count, as a code and a sentence."""

    reason: str
    message: str


def refuse(
    coordinates: dict[str, Any],
    now_ms: int,
    session_id: str | None,
    subject: str | None,
    why: Objection,
) -> OutRecord:
    """The record of a refusal. `coordinates` are those of the refused input, even if a later input or a timer
    refuses it."""
    decision_id = f"{coordinates['topic']}:{coordinates['partition']}:{coordinates['offset']}"
    body = {
        "schema": INPUT_REFUSED,
        "refusal_id": refusal_id(decision_id),
        "topic": coordinates["topic"],
        "session_id": session_id,
        "subject": subject,
        "reason": why.reason,
        "message": why.message,
        "decided_at": rfc3339(now_ms),
        "input": coordinates,
    }
    return OutRecord(SESSION_EVENTS, "InputRefused", body, session_id or "")


def refuse_review(input_record: InputRecord, review: ReviewDecision, why: Objection) -> OutRecord:
    """The record of the refusal of a review; what it is about stays as it is."""
    return refuse(
        input_record.coordinates(), input_record.timestamp_ms, review.session_id, review.subject_id, why
    )
