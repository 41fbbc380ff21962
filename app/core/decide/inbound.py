"""What an arrival reads as: a record of its topic, under the key that its partition follows from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.decide.kinds import BY_TOPIC
from topics.record_reading import Unreadable, read

if TYPE_CHECKING:
    from app.core.decide.kinds import Message
    from app.core.foundation.arrival import Arrival

KEY_MISMATCH = Unreadable("key_mismatch", "$.session_id", "the message key must be the session_id, UTF-8")


def message_of(arrival: Arrival) -> Message | Unreadable:
    """The record in an arrival, or why there is none."""
    kind = BY_TOPIC[arrival.topic]
    message: Message | Unreadable = read(kind.model, arrival.value)
    if not isinstance(message, Unreadable) and kind.key(message).encode() != arrival.key:
        return KEY_MISMATCH
    return message
