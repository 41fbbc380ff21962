"""The kinds of inputs: their topics, the topics that answer them, and the ids of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.client.answers import InputLocation

ACTIONS = "gate.actions.proposed"
OUTCOMES = "gate.outcomes"
MEMORY_WRITES = "gate.memory.writes.proposed"
RETRIEVALS = "gate.memory.retrievals.proposed"
VERDICTS = "gate.verdicts"
MEMORY_DECISIONS = "gate.memory.decisions"
SERVED = "gate.memory.retrievals.served"
ESCALATIONS = "gate.escalations"
REVIEWS = "gate.reviews"
MANDATES = "gate.mandates"
SESSION_EVENTS = "gate.session.events"
QUARANTINE = "gate.quarantine"
DEAD_LETTERS = "gate.dead_letters"
ALARMS = "gate.alarms"
ANSWERS = (VERDICTS, MEMORY_DECISIONS, SERVED, SESSION_EVENTS, ESCALATIONS, DEAD_LETTERS)


@dataclass(frozen=True, slots=True)
class InputKind:
    """A kind of input: its topic and record, the topic that answers it, the kinds of the answers' ids, the
    names that an answer repeats of its input, and further topics in which answers may be."""

    topic: str
    record: str
    answers: str
    ids: tuple[str, ...]
    names: tuple[str, ...]
    also: tuple[str, ...] = ()

    def list_ids(self, location: InputLocation) -> list[str]:
        """The ids of its possible answers."""
        at = f"{self.topic}:{location.partition}:{location.offset}"
        return [f"{prefix}:{at}" for prefix in (*self.ids, "dead_letter")]

    @property
    def answer_topics(self) -> tuple[str, ...]:
        """Topics in which its answer may be."""
        return (self.answers, DEAD_LETTERS, *self.also)


_WHERE = ("session_id",)
_WHO = ("agent_id", *_WHERE)
ACTION = InputKind(ACTIONS, "ProposedAction", VERDICTS, ("verdict",), ("action_id", *_WHO))
WRITE = InputKind(MEMORY_WRITES, "ProposedMemoryWrite", MEMORY_DECISIONS, ("memory",), ("write_id", *_WHO))
RETRIEVAL = InputKind(RETRIEVALS, "ProposedRetrieval", SERVED, ("served",), ("request_id", *_WHO))
REVIEW = InputKind(
    REVIEWS, "ReviewDecision", ESCALATIONS, ("approval", "refusal"), _WHERE, (QUARANTINE, SESSION_EVENTS)
)
OUTCOME = InputKind(OUTCOMES, "ActionOutcome", SESSION_EVENTS, ("outcome", "refusal"), ("action_id", *_WHERE))
MANDATE = InputKind(MANDATES, "TaskMandate", SESSION_EVENTS, ("mandate", "refusal"), ("mandate_id", *_WHO))
