"""Which input got which answers, by the input's coordinates alone: what is lost, doubled, contradicted."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from load.installations.approvers import EXPIRED, is_of_people
from load.installations.installation import KIND_HEADER, MALFORMED
from load.installations.neutral_policy import is_of_persons
from load.installations.task_policy import is_of_tasks
from sluice_topics.catalog import ALARMS, BUNDLES, DEAD_LETTERS, POLICY_EVENTS, QUARANTINE, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.installations.installation import Evidence
    from sluice.adapters.kafka.kafka_read import StoredRecord

Place = tuple[str, int, int]
"""Base topic, partition, offset."""

CHAIN_FIELDS = frozenset({"sequence", "prev_hash", "event_hash"})
INTERNAL_ERROR = "internal_error"
COMPANIONS = frozenset(
    {
        *(f"sluice/quarantine_{what}/v1" for what in ("entered", "evicted", "expired")),
        "sluice/outcome_alarm/v1",
    }
)
"""What an input does beside its own answer: to memories (time alone may do the last), and the alarm that it
raises."""
OF_TIME = frozenset({ALARMS, POLICY_EVENTS, QUARANTINE})
"""Topics of records that no input causes."""


@dataclass(slots=True)
class Answered:
    """An input with the ledger records about it, in ledger order: decisions (of a retrieval one an item, and
    an escalation), dead letters, and what it did to held memories beside."""

    record: StoredRecord
    topic: str
    decisions: list[dict[str, Any]] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    companions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def readable(self) -> bool:
        """Whether somebody was to read it, and did."""
        return not self.unread and not self.kind.startswith(MALFORMED)

    @property
    def message(self) -> dict[str, Any]:
        """The JSON object in it; only of a readable one."""
        message: dict[str, Any] = json.loads(self.record.value or b"null")
        return message

    @property
    def kind(self) -> str:
        """What the traffic said it was."""
        return next((value.decode() for name, value in self.record.headers if name == KIND_HEADER), "")

    @property
    def digest(self) -> str:
        """As the ledger writes it."""
        return "sha256:" + hashlib.sha256(self.record.value or b"").hexdigest()

    @property
    def doubled(self) -> bool:
        """Answered twice in one way."""
        return len(_parts(self.decisions)) < len(self.decisions) or len(self.letters) > 1

    @property
    def contradicted(self) -> bool:
        """Answered twice, and not the same."""
        return any(map(_differ, _parts(self.decisions).values())) or _differ(self.letters)

    @property
    def unread(self) -> bool:
        """Denied after crashes, without a look into it."""
        return any(dead_letter["code"] == INTERNAL_ERROR for dead_letter in self.letters) and not any(
            decision.get("session_id") for decision in self.decisions
        )


@dataclass(frozen=True, slots=True)
class AnswerAccount:
    """Every input by its place, every ledger record in chain order, and how many belong to no input.

    `refused`: the dead letters about control records. `policies`: how often the ledger says what is in force.
    """

    inputs: dict[Place, Answered]
    ledger: list[dict[str, Any]]
    foreign: int
    refused: list[dict[str, Any]]
    policies: int

    def count(self, what: str) -> int:
        """How many inputs are `lost`, `doubled`, `contradicted`, `unread` or `faulted`."""
        return sum(_IS[what](answered) for answered in self.inputs.values())


def is_of_others(key: bytes | None) -> bool:
    """Whether a record is of a session that has a recount of its own."""
    return is_of_people(key) or is_of_tasks(key) or is_of_persons(key)


def account(
    evidence: Evidence, is_ours: Callable[[bytes | None], bool] = lambda key: not is_of_others(key)
) -> AnswerAccount:
    """Put ledger records to their inputs. `is_ours`: by their keys, of which sessions; else of those without
    a recount of their own."""
    base = len(evidence.installation.prefix)
    ours = (record for record in evidence.inputs if is_ours(record.key))
    inputs = {(r.topic[base:], r.partition, r.offset): Answered(r, r.topic[base:]) for r in ours}
    ledger = (record for record in evidence.ledger if is_ours(record.key))
    bodies = [(record.topic[base:], json.loads(record.value or b"null")) for record in ledger]
    bodies.sort(key=lambda pair: (pair[1]["partition"], pair[1]["sequence"]))
    refused = [
        body for topic, body in bodies if topic == DEAD_LETTERS and body["topic"] in (REGISTRY, BUNDLES)
    ]
    foreign = sum(not _attach(inputs, topic, body) for topic, body in bodies) - len(refused)
    policies = sum(topic == POLICY_EVENTS for topic, _ in bodies)
    return AnswerAccount(inputs, [body for _, body in bodies], foreign, refused, policies)


def place_of(body: dict[str, Any]) -> Place | None:
    """Coordinates of the input that a ledger record is about; None for a timer's."""
    where = body["input"]
    return None if where is None else (where["topic"], where["partition"], where["offset"])


def is_answer(body: dict[str, Any]) -> bool:
    """Whether a ledger record decides on its input, and does not only say what the input did beside."""
    return body["schema"] not in COMPANIONS


def _attach(inputs: dict[Place, Answered], topic: str, body: dict[str, Any]) -> bool:
    coordinates = place_of(body)
    if coordinates is None:
        return topic in OF_TIME or body["schema"] == EXPIRED
    answered = inputs.get(coordinates)
    if answered is None or answered.digest != body["input"]["digest"]:
        return False
    if not is_answer(body):
        answered.companions.append(body)
    else:
        (answered.letters if topic == DEAD_LETTERS else answered.decisions).append(body)
    return True


def _parts(bodies: list[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """By what they decide on: an input as a whole, or one item of it."""
    parts: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for body in bodies:
        parts[body["schema"], body.get("place", 0)].append(body)
    return parts


def _differ(bodies: list[dict[str, Any]]) -> bool:
    contents = [{name: value for name, value in body.items() if name not in CHAIN_FIELDS} for body in bodies]
    return any(body != contents[0] for body in contents[1:])


def _has_fault(answered: Answered) -> bool:
    return (
        any(dead_letter["code"] == INTERNAL_ERROR for dead_letter in answered.letters) and not answered.unread
    )


_IS = {
    "lost": lambda answered: not answered.decisions and not answered.letters,
    "doubled": lambda answered: answered.doubled,
    "contradicted": lambda answered: answered.contradicted,
    "unread": lambda answered: answered.unread,
    "faulted": _has_fault,
}
