"""The ledger's records as they come, held against what was published: who has been answered, who not yet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from topics.catalog import (
    ADMITTED,
    DEAD_LETTERS,
    ESCALATIONS,
    MEMORY_DECISIONS,
    QUARANTINE,
    SESSION_EVENTS,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.adapters.kafka_publish import Placed
    from app.adapters.kafka_read import StoredRecord
    from app.demo.plan import Planned

ANSWERING = (VERDICTS, DEAD_LETTERS, SESSION_EVENTS, MEMORY_DECISIONS)
"""An input has its answer in one of these; an escalation comes beside its verdict. A review's answer is an
event of the quarantine, or its refusal."""
REVIEWED = frozenset({"sluice/quarantine_approved/v1", "sluice/quarantine_rejected/v1"})
ENTERED = "sluice/quarantine_entered/v1"

Coordinates = tuple[str, int, int]
"""An input's topic (without prefix), partition, offset."""


class Answered(NamedTuple):
    """An input and the record that answers it; `body` by wire names."""

    planned: Planned
    topic: str
    body: dict[str, Any]


class Answers:
    """Fed with what was published and with what was read, in any order between the two."""

    def __init__(self, prefix: str) -> None:
        self.escalations: list[dict[str, Any]] = []
        self.quarantine: list[dict[str, Any]] = []
        self.admitted: list[dict[str, Any]] = []
        self.answered_twice = 0
        self._prefix = prefix
        self._published: dict[Coordinates, Planned] = {}
        self._found: dict[Coordinates, tuple[str, dict[str, Any]]] = {}

    def expect(self, planned: Iterable[Planned], placed: Iterable[Placed]) -> None:
        """These inputs now lie there."""
        for one, place in zip(planned, placed, strict=True):
            self._published[one.topic, place.partition, place.offset] = one

    def take(self, records: Iterable[StoredRecord]) -> None:
        """Records of the ledger's topics."""
        for record in records:
            self._take(record.topic.removeprefix(self._prefix), json.loads(record.value or b"null"))

    def _take(self, topic: str, body: dict[str, Any]) -> None:
        if topic == ESCALATIONS:
            self.escalations.append(body)
        elif topic == ADMITTED:
            self.admitted.append(body)
        elif topic == QUARANTINE:
            self.quarantine.append(body)
        answers = topic in ANSWERING or (topic == QUARANTINE and body["schema"] in REVIEWED)
        if answers and body["input"] is not None:
            came = body["input"]
            coordinates = (came["topic"], came["partition"], came["offset"])
            self.answered_twice += coordinates in self._found
            self._found[coordinates] = (topic, body)

    @property
    def published(self) -> int:
        return len(self._published)

    @property
    def answered(self) -> int:
        return len(self._published.keys() & self._found.keys())

    @property
    def unanswered(self) -> list[Planned]:
        return [one for where, one in self._published.items() if where not in self._found]

    @property
    def held(self) -> int:
        """Memories in quarantine: entered and not ended."""
        entered = [one for one in self.quarantine if one["schema"] == ENTERED]
        return 2 * len(entered) - len(self.quarantine)

    def of(self, topic: str) -> Iterator[Answered]:
        """The inputs that this topic answers, in the order in which they were published."""
        for where, planned in self._published.items():
            found = self._found.get(where)
            if found is not None and found[0] == topic:
                yield Answered(planned, *found)
