"""The ledger's records as they come, held against what was published: which inputs are answered."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.ledger.record_line import read_line
from sluice.core.decide.kinds import ANSWERS
from sluice.core.foundation.input_record import read_coordinates
from sluice_topics.catalog import (
    ADMITTED,
    CATALOG,
    DEAD_LETTERS,
    ESCALATIONS,
    QUALITY_DECISIONS,
    QUARANTINE,
    RETRIEVALS,
    SERVED,
    SESSION_EVENTS,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.cli.ledger.record_line import RecordLine
    from sluice.client.kafka_writing import PublishedAt
    from sluice_demo.material import Planned

Coordinates = tuple[str, int, int]
"""An input's topic (without prefix), partition, offset."""
TOPICS = (*(topic.name for topic in CATALOG if topic.ledger), ADMITTED, SERVED)
ANSWERING = {answer_kind.topic for answer_kind in ANSWERS.values()} - {QUALITY_DECISIONS} | {
    DEAD_LETTERS,
    SESSION_EVENTS,
}
"""An input has its answer in one of these. A review's answer is an event of the quarantine, or its refusal; a
retrieval is answered by a decision on each item and the ServedRetrieval."""
REVIEWED = frozenset({"sluice/quarantine_approved/v1", "sluice/quarantine_rejected/v1"})
ENTERED = "sluice/quarantine_entered/v1"
OF_ITEMS = "sluice/retrieval_escalation_opened/v1"
OPENED, RESOLVED = "sluice/escalation_opened/v1", "sluice/escalation_resolved/v1"
ENDED = frozenset({RESOLVED, "sluice/escalation_expired/v1"})
RESOLVED_VERDICT = "sluice/resolved_verdict/v1"


def _is_ended_by_review(body: dict[str, Any]) -> bool:
    """Whether a record is the only answer to a review. An approval is also answered by a resolved verdict."""
    schema = body.get("schema")
    return schema in REVIEWED or (schema == RESOLVED and body["decision"] == "deny")


class AnsweredInput(NamedTuple):
    """An input and the record that answers it; `body` by wire names."""

    planned: Planned
    topic: str
    body: dict[str, Any]


class AnsweredRetrieval(NamedTuple):
    """A retrieval with its items' decisions, in their order, and its ServedRetrieval; by wire names."""

    planned: Planned
    decisions: list[dict[str, Any]]
    served: dict[str, Any]

    @property
    def unfounded(self) -> list[str]:
        """Items that the agent was shown, or told of, without a decision of this retrieval on them."""
        judged = {(decision["ledger_event_id"], decision["item_id"]) for decision in self.decisions}
        shown = [*self.served["items"], *self.served["withheld"]]
        return [item["item_id"] for item in shown if (item["ledger_event_id"], item["item_id"]) not in judged]


class LedgerLine(NamedTuple):
    """A ledger record about a session, in the words of `sluice watch`; `body` by wire names."""

    topic: str
    line: RecordLine
    body: dict[str, Any]


class DemoAnswers:
    """Fed with what was published and with what was read, in any order between the two.

    `story`: the session whose records are kept as lines too.
    """

    def __init__(self, prefix: str, story: str = "") -> None:
        self.bodies: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        """Every record by its topic's base name."""
        self.lines: list[LedgerLine] = []
        self._prefix = prefix
        self._story = story
        self._published: dict[Coordinates, Planned] = {}
        self._answers: dict[Coordinates, tuple[str, dict[str, Any]]] = {}
        self._decisions: defaultdict[Coordinates, dict[int, dict[str, Any]]] = defaultdict(dict)
        self._served: dict[Coordinates, dict[str, Any]] = {}
        self.answered_twice = 0
        """Second answers to an input, and to an item of a retrieval."""

    def expect(self, planned: Iterable[Planned], placed: Iterable[PublishedAt]) -> None:
        """These inputs now lie there."""
        for planned_input, at in zip(planned, placed, strict=True):
            self._published[planned_input.topic, at.partition, at.offset] = planned_input

    def take(self, records: Iterable[StoredRecord]) -> None:
        """Records of the ledger's topics."""
        for record in records:
            topic, body = record.topic.removeprefix(self._prefix), json.loads(record.value or b"null")
            self.bodies[topic].append(body)
            if body.get("session_id") == self._story and "sequence" in body:
                self.lines.append(LedgerLine(topic, read_line(record, topic), body))
            self._answer(topic, body)

    def _answer(self, topic: str, body: dict[str, Any]) -> None:
        came = body.get("input")
        where = (came["topic"], came["partition"], came["offset"]) if came else ("", 0, 0)
        if topic == SERVED:
            where = read_coordinates(body["served_id"])
            self.answered_twice += where in self._served
            self._served[where] = body
        elif topic == QUALITY_DECISIONS:
            self.answered_twice += body["place"] in self._decisions[where]
            self._decisions[where][body["place"]] = body
        elif came and (topic in ANSWERING or _is_ended_by_review(body)):
            self.answered_twice += where in self._answers
            self._answers[where] = (topic, body)

    @property
    def escalations(self) -> list[dict[str, Any]]:
        """Those of actions that were opened."""
        return [body for body in self.bodies[ESCALATIONS] if body.get("schema") == OPENED]

    @property
    def endings(self) -> dict[str, dict[str, Any]]:
        """The records that ended escalations of actions, by their ids."""
        return {
            body["escalation_id"]: body for body in self.bodies[ESCALATIONS] if body.get("schema") in ENDED
        }

    @property
    def item_escalations(self) -> list[dict[str, Any]]:
        """The escalations of retrievals that were opened."""
        return [body for body in self.bodies[ESCALATIONS] if body.get("schema") == OF_ITEMS]

    @property
    def published(self) -> int:
        return len(self._published)

    @property
    def answered(self) -> int:
        return sum(self._is_answered(*entry) for entry in self._published.items())

    @property
    def unanswered(self) -> list[Planned]:
        return [
            planned for where, planned in self._published.items() if not self._is_answered(where, planned)
        ]

    @property
    def unfounded(self) -> int:
        """Items that an agent was shown without a decision on them."""
        return sum(len(retrieval.unfounded) for retrieval in self.iterate_retrievals())

    @property
    def quarantined(self) -> int:
        """Memories in quarantine and actions escalated, that have not ended."""
        schemas = Counter(body["schema"] for body in self.bodies[QUARANTINE])
        return 2 * schemas[ENTERED] - schemas.total() + len(self.escalations) - len(self.endings)

    def iterate(self, topic: str) -> Iterator[AnsweredInput]:
        """The inputs that this topic answers, in the order in which they were published; of gate.verdicts
        the first verdicts."""
        for where, planned in self._published.items():
            answered = self._answers.get(where)
            if (
                answered is not None
                and answered[0] == topic
                and answered[1].get("schema") != RESOLVED_VERDICT
            ):
                yield AnsweredInput(planned, *answered)

    def iterate_retrievals(self) -> Iterator[AnsweredRetrieval]:
        """The retrievals that are answered whole, in the order in which they were published."""
        for where, planned in self._published.items():
            retrieval = self._collect_retrieval(where, planned)
            if retrieval is not None:
                yield retrieval

    def _collect_retrieval(self, where: Coordinates, planned: Planned) -> AnsweredRetrieval | None:
        """Answered whole: every item has its decision, and the agent was told."""
        decisions, served = self._decisions.get(where, {}), self._served.get(where)
        if planned.topic != RETRIEVALS or served is None:
            return None
        if decisions.keys() != set(range(len(planned.fields["items"]))):
            return None
        return AnsweredRetrieval(planned, [decisions[index] for index in sorted(decisions)], served)

    def _is_answered(self, where: Coordinates, planned: Planned) -> bool:
        """An unreadable retrieval is answered by a dead letter."""
        return where in self._answers or self._collect_retrieval(where, planned) is not None


NO_GATE = "-"
DUPLICATE = "duplicate"
SETTLED = "sluice/reservation_settled/v1"


class Cause(NamedTuple):
    """`gate`: the first that did not pass, or NO_GATE; `kind`: the first word of the `reason`."""

    verdict: str
    gate: str
    kind: str
    reason: str


def read_cause(verdict: dict[str, Any]) -> Cause:
    """Why this verdict, by wire names. An escalation keeps the gate that asked for it."""
    if verdict.get("duplicate_of"):
        return Cause(verdict["verdict"], NO_GATE, DUPLICATE, "seen before, counted once")
    failed: dict[str, Any] = next((gate for gate in verdict["gateResults"] if not gate["passed"]), {})
    reason = failed.get("failureReason") or verdict.get("blockReason") or ""
    return Cause(verdict["verdict"], failed.get("gate", NO_GATE), reason.partition(":")[0], reason)


def choose_examples(answers: DemoAnswers, each: int) -> list[AnsweredInput]:
    """Choose up to `each` verdicts of every word, gate and kind of reason, of different tools."""
    chosen: defaultdict[tuple[str, ...], dict[str, AnsweredInput]] = defaultdict(dict)
    # From the end, where the ordinary sessions are; the growing ones are shown by themselves.
    for answered in reversed(list(answers.iterate(VERDICTS))):
        by_input = chosen[read_cause(answered.body)[:3]]
        if len(by_input) < each:
            by_input.setdefault(answered.planned.fields["toolName"], answered)
    return [planned for cause in sorted(chosen) for planned in chosen[cause].values()]


@dataclass
class SessionTally:
    """A session's verdicts by word, and the totals that its last ledger record left."""

    session_id: str
    verdicts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    actions: int = 0
    sequence: int = 0

    def note_totals(self, sequence: int, totals: dict[str, Any]) -> None:
        """The totals that a record left, unless a later record was seen before."""
        if sequence > self.sequence:
            self.sequence, self.rows = sequence, int(totals["aggregateRowsAffected"])


def tally_sessions(answers: DemoAnswers) -> list[SessionTally]:
    """Tally the sessions, in the order in which they began."""
    tallies: dict[str, SessionTally] = {}
    for answered in answers.iterate(VERDICTS):
        tally = tallies.setdefault(answered.planned.session_id, SessionTally(answered.planned.session_id))
        after = answered.body["session"]["after"]
        tally.verdicts[answered.body["verdict"]] += 1
        tally.actions = max(tally.actions, int(after["aggregateActionCount"]))
        tally.note_totals(answered.body["sequence"], after)
    for body in answers.bodies[VERDICTS]:
        if body.get("schema") == RESOLVED_VERDICT and body["session_id"] in tallies:
            after, tally = body["session"]["after"], tallies[body["session_id"]]
            tally.actions = max(tally.actions, int(after["aggregateActionCount"]))
            tally.note_totals(body["sequence"], after)
    for answered in list_settled(answers):
        tallies[answered.planned.session_id].note_totals(answered.body["sequence"], answered.body)
    return list(tallies.values())


def list_settled(answers: DemoAnswers) -> list[AnsweredInput]:
    """The outcomes that settled a reservation."""
    return [answered for answered in answers.iterate(SESSION_EVENTS) if answered.body["schema"] == SETTLED]
