"""The ledger's records as they come, held against what was published: who has been answered, who not yet."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.foundation.arrival import coordinates_of
from topics.catalog import (
    ADMITTED,
    ALARMS,
    DEAD_LETTERS,
    ESCALATIONS,
    MEMORY_DECISIONS,
    QUALITY_DECISIONS,
    QUARANTINE,
    RETRIEVALS,
    SERVED,
    SESSION_EVENTS,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.adapters.kafka.kafka_publish import PublishedAt
    from app.adapters.kafka.kafka_read import StoredRecord
    from app.demo.inputs.plan import Planned

Coordinates = tuple[str, int, int]
"""An input's topic (without prefix), partition, offset."""


class AnsweredRetrieval(NamedTuple):
    """A retrieval with its items' decisions, in their order, and its ServedRetrieval; by wire names."""

    planned: Planned
    decisions: list[dict[str, Any]]
    served: dict[str, Any]

    @property
    def escalated(self) -> list[dict[str, Any]]:
        """The decisions that wait for a person."""
        return [one for one in self.decisions if one["escalation_id"] is not None]

    @property
    def unfounded(self) -> list[str]:
        """Items that the agent was shown, or told of, without a decision of this retrieval on them."""
        known = {(one["ledger_event_id"], one["item_id"]) for one in self.decisions}
        shown = [*self.served["items"], *self.served["withheld"]]
        return [one["item_id"] for one in shown if (one["ledger_event_id"], one["item_id"]) not in known]


class RetrievalAnswers:
    """Fed with decisions on items and with what was served, in any order."""

    def __init__(self) -> None:
        self.twice = 0
        self._decisions: defaultdict[Coordinates, dict[int, dict[str, Any]]] = defaultdict(dict)
        self._served: dict[Coordinates, dict[str, Any]] = {}

    def take(self, topic: str, body: dict[str, Any]) -> None:
        """A QualityDecision or a ServedRetrieval."""
        if topic == QUALITY_DECISIONS:
            came = body["input"]
            found = self._decisions[came["topic"], came["partition"], came["offset"]]
            self.twice += body["place"] in found
            found[body["place"]] = body
        else:
            where = coordinates_of(body["served_id"])
            self.twice += where in self._served
            self._served[where] = body

    def of(self, where: Coordinates, planned: Planned) -> AnsweredRetrieval | None:
        """The retrieval that lies there, once it is answered whole: every item, and what is shown of them."""
        decisions, served = self._decisions.get(where, {}), self._served.get(where)
        if served is None or decisions.keys() != set(range(len(planned.fields["items"]))):
            return None
        return AnsweredRetrieval(planned, [decisions[place] for place in sorted(decisions)], served)


ANSWERING = (VERDICTS, DEAD_LETTERS, SESSION_EVENTS, MEMORY_DECISIONS)
"""An input has its answer in one of these; an escalation comes beside its verdict. A review's answer is an
event of the quarantine, or its refusal; a retrieval's are in the topics of `READ`."""
READ = (QUALITY_DECISIONS, SERVED)
TOPICS = (*ANSWERING, *READ, ESCALATIONS, QUARANTINE, ADMITTED, ALARMS)
"""Everything that an answer or what came of it may be in."""
REVIEWED = frozenset({"sluice/quarantine_approved/v1", "sluice/quarantine_rejected/v1"})
ENTERED = "sluice/quarantine_entered/v1"
OF_ITEMS = "sluice/retrieval_escalation_opened/v1"


class AnsweredInput(NamedTuple):
    """An input and the record that answers it; `body` by wire names."""

    planned: Planned
    topic: str
    body: dict[str, Any]


class Answers:
    """Fed with what was published and with what was read, in any order between the two."""

    def __init__(self, prefix: str) -> None:
        self.escalations: list[dict[str, Any]] = []
        self.item_escalations: list[dict[str, Any]] = []
        self.alarms: list[dict[str, Any]] = []
        self.quarantine: list[dict[str, Any]] = []
        self.admitted: list[dict[str, Any]] = []
        self._answered_twice = 0
        self._read = RetrievalAnswers()
        self._prefix = prefix
        self._published: dict[Coordinates, Planned] = {}
        self._found: dict[Coordinates, tuple[str, dict[str, Any]]] = {}

    def expect(self, planned: Iterable[Planned], placed: Iterable[PublishedAt]) -> None:
        """These inputs now lie there."""
        for one, place in zip(planned, placed, strict=True):
            self._published[one.topic, place.partition, place.offset] = one

    def take(self, records: Iterable[StoredRecord]) -> None:
        """Records of the ledger's topics."""
        for record in records:
            self._take(record.topic.removeprefix(self._prefix), json.loads(record.value or b"null"))

    def _take(self, topic: str, body: dict[str, Any]) -> None:
        kept = self._kept(topic, body.get("schema"))
        if kept is not None:
            kept.append(body)
        if topic in READ:
            self._read.take(topic, body)
        answers = topic in ANSWERING or (topic == QUARANTINE and body["schema"] in REVIEWED)
        if answers and body["input"] is not None:
            came = body["input"]
            coordinates = (came["topic"], came["partition"], came["offset"])
            self._answered_twice += coordinates in self._found
            self._found[coordinates] = (topic, body)

    def _kept(self, topic: str, schema: str | None) -> list[dict[str, Any]] | None:
        """The list that a record which answers nothing is kept in."""
        if schema == OF_ITEMS:
            return self.item_escalations
        lists = {ESCALATIONS: self.escalations, ADMITTED: self.admitted, ALARMS: self.alarms}
        return self.quarantine if topic == QUARANTINE else lists.get(topic)

    @property
    def published(self) -> int:
        return len(self._published)

    @property
    def answered(self) -> int:
        return sum(self._is_answered(*one) for one in self._published.items())

    @property
    def unanswered(self) -> list[Planned]:
        return [one for where, one in self._published.items() if not self._is_answered(where, one)]

    @property
    def answered_twice(self) -> int:
        """Second answers to an input, and to an item of a retrieval."""
        return self._answered_twice + self._read.twice

    @property
    def unfounded(self) -> int:
        """Items that an agent was shown without a decision on them."""
        return sum(len(one.unfounded) for one in self.retrievals())

    @property
    def held(self) -> int:
        """Memories in quarantine: entered and not ended."""
        entered = [one for one in self.quarantine if one["schema"] == ENTERED]
        return 2 * len(entered) - len(self.quarantine)

    def of(self, topic: str) -> Iterator[AnsweredInput]:
        """The inputs that this topic answers, in the order in which they were published."""
        for where, planned in self._published.items():
            found = self._found.get(where)
            if found is not None and found[0] == topic:
                yield AnsweredInput(planned, *found)

    def retrievals(self) -> Iterator[AnsweredRetrieval]:
        """The retrievals that are answered whole, in the order in which they were published."""
        for where, planned in self._published.items():
            found = self._read.of(where, planned) if planned.topic == RETRIEVALS else None
            if found is not None:
                yield found

    def _is_answered(self, where: Coordinates, planned: Planned) -> bool:
        """A retrieval that nobody can read has a dead letter."""
        return where in self._found or (
            planned.topic == RETRIEVALS and self._read.of(where, planned) is not None
        )
