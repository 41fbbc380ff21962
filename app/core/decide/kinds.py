"""The table of the kinds of input, one row each; and what an arrival reads as by it.

An arrival reads as a record of its topic, under the key that its partition follows from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.action_kinds import ACTION, OUTCOME
from app.core.decide.review import REVIEW
from app.core.memory.memory_kinds import FEEDBACK, WRITE
from app.core.retrieval.retrieval_kinds import REPORT, RETRIEVAL
from topics.record_reading import Unreadable, read
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
    from app.core.policy.kind import AnswerKind, AnyKind, DecisionKind
    from topics.records.base import Record

Message = (
    ProposedAction
    | ActionOutcome
    | ProposedMemoryWrite
    | ProposedRetrieval
    | RetrievalReport
    | ReviewDecision
    | SourceFeedback
)
KINDS: tuple[AnyKind, ...] = (ACTION, OUTCOME, WRITE, RETRIEVAL, REPORT, REVIEW, FEEDBACK)
"""In the order of topics/catalog.py."""
BY_TOPIC: Mapping[str, AnyKind] = {kind.topic: kind for kind in KINDS}
"""By the base name of the input's topic."""
BY_MODEL: Mapping[type[Record], AnyKind] = {kind.model: kind for kind in KINDS}
"""By the class of the input's record."""
ANSWERS: Mapping[str, AnswerKind[Any]] = {kind.answer.schema: kind.answer for kind in KINDS if kind.answer}
"""By the `schema` of the record that answers an input."""
JUDGED: tuple[AnyKind, ...] = tuple(
    kind for kind in KINDS if kind.answer and kind.answer.decision and kind.unread
)
"""The kinds whose every input is answered by a decision that can be executed again, or by a dead letter."""
DECIDING: Mapping[str, AnswerKind[Any]] = {
    kind.topic: kind.answer for kind in KINDS if kind.answer and kind.answer.decision
}
"""The records that decide, by the base topic of their inputs."""
DECISIONS: Mapping[str, DecisionKind[Any]] = {
    schema: one.decision for schema, one in ANSWERS.items() if one.decision is not None
}
"""By the `schema` of a decision."""


KEY_MISMATCH = Unreadable("key_mismatch", "$.session_id", "the message key must be the session_id, UTF-8")


def message_of(arrival: Arrival) -> Message | Unreadable:
    """The record in an arrival, or why there is none."""
    kind = BY_TOPIC[arrival.topic]
    message: Message | Unreadable = read(kind.model, arrival.value)
    if not isinstance(message, Unreadable) and kind.key(message).encode() != arrival.key:
        return KEY_MISMATCH
    return message
