"""One decision's story out of the ledger: the decision, and every record that came of it.

An id may be a decision's own, an input's coordinates, or what a caller named: an action, a write, a request,
an escalation, a memory. One pass finds the decisions that it names, a second one what names these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.decide.kinds import DECISIONS
from sluice.core.foundation.refusals import DEAD_LETTER as UNREAD
from sluice.core.retrieval.quality_record import SCHEMA as ITEM
from sluice_topics.catalog import BY_NAME

if TYPE_CHECKING:
    from sluice.verifier.export import Located

OWN_IDS = (
    "verdict_id",
    "memory_id",
    "ledger_event_id",
    "dead_letter_id",
    "refusal_id",
    "outcome_id",
    "policy_event_id",
)
"""Made of the input's coordinates; of the policy in force of its partition, digest and time."""
NAMED_IDS = (
    "action_id",
    "write_id",
    "request_id",
    "item_id",
    "report_id",
    "escalation_id",
    "escalationId",
    "subject",
)
"""Given by callers, or naming another record."""
_OF_A_DECISION = ("verdict_id", "memory_id", "ledger_event_id", "action_id", "write_id", "escalationId")


class StoryEvent(NamedTuple):
    """A ledger record where it lies; `topic` is its name on the broker without a prefix."""

    topic: str
    partition: int
    offset: int
    fields: dict[str, Any]

    @property
    def schema(self) -> str:
        """The kind of the record."""
        return str(self.fields.get("schema"))

    @property
    def is_decision(self) -> bool:
        """Whether it answers an action, a memory write or an item, or says why none could be read."""
        return self.schema in DECISIONS or self.schema == UNREAD


class Story(NamedTuple):
    """A decision and what came of it, in the order of the chain."""

    decision: StoryEvent
    followed: tuple[StoryEvent, ...]


class NamedRecords:
    """Takes ledger records; keeps those that name an id."""

    def __init__(self, an_id: str) -> None:
        self._id = an_id
        self._written = orjson.dumps(an_id)[1:-1]
        self.events: list[StoryEvent] = []

    def take(self, located: Located) -> None:
        """Keep the record if some id in it is this one, with or without its kind in front."""
        if located.value is None or self._written not in located.value:
            return
        event = _read_event(located)
        if event is not None and any(self._is_meant(event.fields.get(name)) for name in OWN_IDS + NAMED_IDS):
            self.events.append(event)

    def _is_meant(self, value: object) -> bool:
        return isinstance(value, str) and (value == self._id or value.partition(":")[2] == self._id)


class Followed:
    """Takes the same records again; keeps what came of the decisions."""

    def __init__(self, decisions: list[StoryEvent]) -> None:
        self._ids = [_read_ids(decision) for decision in decisions]
        self._written = [orjson.dumps(an_id)[1:-1] for ids in self._ids for an_id in ids]
        self._decisions = decisions
        self._events: list[list[StoryEvent]] = [[] for _ in decisions]

    def take(self, located: Located) -> None:
        """Keep the record with each decision of its partition and session that it names."""
        value = located.value
        if value is None or not any(written in value for written in self._written):
            return
        event = _read_event(located)
        if event is None or event.is_decision:
            return
        for decision, ids, events in zip(self._decisions, self._ids, self._events, strict=True):
            same = event.partition == decision.partition and _read_session(event) == _read_session(decision)
            if same and any(event.fields.get(name) in ids for name in (*OWN_IDS, *NAMED_IDS)):
                events.append(event)

    def list_stories(self) -> list[Story]:
        """A story for each decision, in the order in which they were given."""
        return [
            Story(decision, tuple(sorted(events, key=_read_sequence)))
            for decision, events in zip(self._decisions, self._events, strict=True)
        ]


def _read_ids(decision: StoryEvent) -> frozenset[str]:
    named = (decision.fields.get(name) for name in _OF_A_DECISION)
    ids = {name for name in named if isinstance(name, str)}
    if decision.schema == ITEM and isinstance(request := decision.fields.get("request_id"), str):
        ids.add(request)
    return frozenset(ids)


def _read_session(event: StoryEvent) -> object:
    return event.fields.get("session_id")


def _read_sequence(event: StoryEvent) -> int:
    sequence = event.fields.get("sequence")
    return sequence if isinstance(sequence, int) else 0


def _read_event(located: Located) -> StoryEvent | None:
    try:
        fields = orjson.loads(located.value or b"")
    except ValueError:
        return None
    base = next((name for name in BY_NAME if located.topic.endswith(name)), located.topic)
    return StoryEvent(base, located.partition, located.offset, fields) if isinstance(fields, dict) else None
