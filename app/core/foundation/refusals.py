"""InputRefused: a readable input about something unknown or impossible. It changed nothing."""

from __future__ import annotations

from typing import Any

from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.foundation.ids import refusal_id
from topics.catalog import SESSION_EVENTS

SCHEMA = "sluice/input_refused/v1"


def refused(
    coordinates: dict[str, Any],
    now_ms: int,
    session_id: str | None,
    subject: str | None,
    reason: str,
    message: str,
) -> OutRecord:
    """The record of a refusal. `coordinates` are those of the refused input, even if a later input or a timer
    refuses it."""
    decision_id = f"{coordinates['topic']}:{coordinates['partition']}:{coordinates['offset']}"
    body = {
        "schema": SCHEMA,
        "refusal_id": refusal_id(decision_id),
        "topic": coordinates["topic"],
        "session_id": session_id,
        "subject": subject,
        "reason": reason,
        "message": message,
        "decided_at": rfc3339(now_ms),
        "input": coordinates,
    }
    return OutRecord(SESSION_EVENTS, "InputRefused", body, session_id or "")
