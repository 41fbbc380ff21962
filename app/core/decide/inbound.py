"""What an arrival reads as: a record of its topic, under the key that its partition follows from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.state.history import SourceName
from topics.catalog import (
    ACTIONS,
    MEMORY_WRITES,
    OUTCOMES,
    REPORTED,
    RETRIEVALS,
    REVIEWS,
    SOURCE_FEEDBACK,
)
from topics.reading import Unreadable, read
from topics.records import (
    ActionOutcome,
    ProposedAction,
    ProposedMemoryWrite,
    ProposedRetrieval,
    RetrievalReport,
    ReviewDecision,
    SourceFeedback,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.foundation.arrival import Arrival

SessionMessage = (
    ProposedAction
    | ActionOutcome
    | ProposedMemoryWrite
    | ReviewDecision
    | ProposedRetrieval
    | RetrievalReport
)
Message = SessionMessage | SourceFeedback
MODELS: Mapping[str, type[Message]] = {
    ACTIONS: ProposedAction,
    OUTCOMES: ActionOutcome,
    MEMORY_WRITES: ProposedMemoryWrite,
    REVIEWS: ReviewDecision,
    RETRIEVALS: ProposedRetrieval,
    REPORTED: RetrievalReport,
    SOURCE_FEEDBACK: SourceFeedback,
}
KEY_MISMATCH = Unreadable("key_mismatch", "$.session_id", "the message key must be the session_id, UTF-8")


def message_of(arrival: Arrival) -> Message | Unreadable:
    """The record in an arrival, or why there is none."""
    message = read(MODELS[arrival.topic], arrival.value)
    if not isinstance(message, Unreadable) and _key_of(message).encode() != arrival.key:
        return KEY_MISMATCH
    return message


def _key_of(message: Message) -> str:
    if isinstance(message, SourceFeedback):
        return SourceName(message.tenant_id, message.source_id).key()
    return message.session_id
