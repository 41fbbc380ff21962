"""What an arrival reads as: a record of its topic, under the key of its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topics.catalog import ACTIONS, OUTCOMES
from topics.reading import Unreadable, read
from topics.records import ActionOutcome, ProposedAction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.arrival import Arrival

Message = ProposedAction | ActionOutcome
MODELS: Mapping[str, type[Message]] = {ACTIONS: ProposedAction, OUTCOMES: ActionOutcome}
KEY_MISMATCH = Unreadable("key_mismatch", "$.session_id", "the message key must be the session_id, UTF-8")


def message_of(arrival: Arrival) -> Message | Unreadable:
    """The record in an arrival, or why there is none."""
    message = read(MODELS[arrival.topic], arrival.value)
    if not isinstance(message, Unreadable) and message.session_id.encode() != arrival.key:
        return KEY_MISMATCH
    return message
