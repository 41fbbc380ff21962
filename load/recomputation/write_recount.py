"""Memory writes and reviews along the ledger: what is repeated, held, reviewed, released and counted.

Imports nothing of the core. The ledger says in which order a partition decided, and how it judged a write:
every decision is executed again (load/recomputation/reruns.py). Reviews are not, so what becomes of one is
worked out here, from its kind and from whether its memory is held.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from load.inputs.memory_traffic import KIND
from load.installations.neutral_policy import QUARANTINE_THRESHOLD, TENANT, WRITE_THRESHOLD
from load.recomputation.input_answers import place_of
from load.recomputation.quarantine_recount import (
    APPROVED,
    ENTERED,
    EVICTED,
    EXPIRED,
    LEAVING,
    REJECTED,
    Quarantine,
    milliseconds,
)
from load.recomputation.session_recount import UNREGISTERED
from sluice_topics.catalog import MEMORY_WRITES, REVIEWS

if TYPE_CHECKING:
    from load.recomputation.input_answers import AnswerAccount, Answered

DECISION = "sluice/memory_decision/v1"
REFUSED = "sluice/input_refused/v1"
UNAVAILABLE = "content_unavailable"
"""An approval that cannot read again what it is to release: only while the broker is away."""
COUNTED = {"allow": 1, "quarantine": 2, "reject": 3}
"""Place of an action in a count of statistics; evaluated is 0, the quarantine's size 4."""
REFUSALS = {
    "deny": "wrong_decision",
    "wrong_digest": "wrong_digest",
    "stranger": "not_a_reviewer",
    "wrong_signature": "wrong_signature",
}
"""By kind of a review of a memory that is held."""
Trust = Literal["trusted", "doubted", "distrusted"]


@dataclass(frozen=True, slots=True)
class Feedback:
    """One thing learnt of a source."""

    source: tuple[str, str]
    verdict: str
    memory_id: str


@dataclass(slots=True)
class Memories:
    """All partitions' memories, folded record by record.

    `released`: by memory, how its content must have been released and by which write. `statistics`: by
    partition, tenant and agent. `overtaken`: reviews that came in time, for memories that time took first.
    `foreign_parents`: what decisions got to know of memories of other sessions.
    """

    most: int
    quarantines: dict[int, Quarantine] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    reviews: list[str] = field(default_factory=list)
    released: dict[str, tuple[str, Answered]] = field(default_factory=dict)
    statistics: dict[tuple[int, str, str], list[int]] = field(default_factory=dict)
    feedback: Counter[Feedback] = field(default_factory=Counter)
    tally: Counter[str] = field(default_factory=Counter)
    overtaken: list[str] = field(default_factory=list)
    foreign_parents: set[tuple[str, Trust]] = field(default_factory=set)
    _writes: dict[str, Answered] = field(default_factory=dict)
    _firsts: dict[tuple[bytes, str], dict[str, Any]] = field(default_factory=dict)
    _sources: dict[bytes, set[str]] = field(default_factory=lambda: defaultdict(set))
    _expired_by: dict[Any, str] = field(default_factory=dict)
    _due_to_enter: dict[str, str] = field(default_factory=dict)
    _ever: set[tuple[str, Trust]] = field(default_factory=set)

    def take(self, body: dict[str, Any], answered: Answered | None) -> None:
        """The next record of the ledger, with its input; None for what time alone did."""
        if body["schema"] == DECISION and answered is not None:
            self._note_decision(body, answered)
        elif body["schema"] in LEAVING or body["schema"] == ENTERED:
            self._event(body, answered)
        elif (
            body["schema"] == REFUSED
            and answered is not None
            and answered.topic == REVIEWS
            and answered.readable
        ):
            self._note_refusal(body, answered)

    def quarantine(self, partition: int) -> Quarantine:
        """The partition's."""
        return self.quarantines.setdefault(partition, Quarantine(self.most))

    def never_entered(self) -> list[str]:
        """Held by their decision and not by any event."""
        return [f"{memory} is held and did not enter" for memory in self._due_to_enter]

    def never_so(self) -> list[str]:
        """Memories of other sessions that were trusted as they never were."""
        return [f"{memory} was never {trust}" for memory, trust in self.foreign_parents - self._ever]

    def _note_decision(self, body: dict[str, Any], answered: Answered) -> None:
        if not answered.readable:
            self._count(body)
            return
        fields, session = answered.message, answered.record.key or b""
        first = self._firsts.get((session, fields["write_id"]))
        repeats = body["duplicate_of"] is not None
        self.tally["repeat" if repeats else body["action"]] += 1
        self._check_repeat(body, answered, first)
        if repeats:
            return
        self._count(body)
        self._writes[body["memory_id"]] = answered
        if body["action"] == "allow":
            self.released[body["memory_id"]] = ("allowed", answered)
        if body["action"] == "quarantine":
            self._due_to_enter[body["memory_id"]] = body["reason"]
        if body["tenant_id"] is not None and first is None:
            self._firsts[session, fields["write_id"]] = body
            self._trust(body, fields, session)
            self._sight(body, fields, session)

    def _check_repeat(self, body: dict[str, Any], answered: Answered, first: dict[str, Any] | None) -> None:
        """The same bytes under an id again have the first answer; other bytes are rejected. The rerun would
        not show it: worker and rerun compare by one line."""
        conflicts = first is not None and first["input"]["digest"] != answered.digest
        due = None if first is None or conflicts else first["memory_id"]
        is_rejected = body["action"] == "reject" and body["reason"].startswith("write_id_conflict")
        if body["duplicate_of"] != due or is_rejected != conflicts:
            self.decisions.append(f"{body['memory_id']}: {body['action']} {body['reason']}, repeats {due}")

    def _trust(self, body: dict[str, Any], fields: dict[str, Any], session: bytes) -> None:
        """Note how far the memory is trusted, and what its decision learnt of memories of other sessions, if
        anything; when, nobody can say."""
        score = body["trustScore"]
        if (trust := trust_of(None if score is None else score["total"])) is not None:
            self._ever.add((body["memory_id"], trust))
        observed = {parent["memory_id"]: parent["trust"] for parent in body["seen"]["parents"]}
        asked = [output["payload"] for output in body["model_outputs"] if output["port"] == "lineage"]
        answers = [payload["parents"] for payload in asked if payload is not None]
        self.tally["lineage_unanswered"] += len(asked) - len(answers)
        for parent in fields.get("derived_from", []):
            write = self._writes.get(parent)
            if write is None or write.record.key != session:
                trusted = observed.get(parent, next(iter(answers), {}).get(parent))
                if (trust := trust_of(trusted)) is not None:
                    self.foreign_parents.add((parent, trust))

    def _sight(self, body: dict[str, Any], fields: dict[str, Any], session: bytes) -> None:
        """The first sight of a source is told unless its history was there already."""
        new = fields["source"]["id"] not in self._sources[session]
        self._sources[session].add(fields["source"]["id"])
        if new and body["seen"]["source"]["type"] is None:
            self.feedback[Feedback((TENANT, fields["source"]["id"]), "seen", body["memory_id"])] += 1

    def _event(self, body: dict[str, Any], answered: Answered | None) -> None:
        kind, name = body["schema"], body["memory_id"]
        self.tally[kind] += 1
        quarantine = self.quarantine(body["partition"])
        quarantine.take(body)
        self._resize(body, 1 if kind == ENTERED else -1)
        if kind == ENTERED and self._due_to_enter.pop(name, None) != body["reason"]:
            self.decisions.append(f"{name} entered for {body['reason']}, which no decision says")
        if kind in {EXPIRED, EVICTED} and answered is not None:
            self._expired_by[place_of(body)] = name
            self._note_cause(body, answered)
        if kind in {APPROVED, REJECTED}:
            self._note_review(body, answered, approved=kind == APPROVED)

    def _note_cause(self, body: dict[str, Any], answered: Answered) -> None:
        """By a write that needed room or found it expired, or by a review that came too late."""
        allowed = {MEMORY_WRITES} if body["schema"] == EVICTED else {MEMORY_WRITES, REVIEWS}
        if answered.topic not in allowed:
            self.reviews.append(f"{body['schema']} {body['memory_id']} by an input of {answered.topic}")

    def _note_review(self, body: dict[str, Any], answered: Answered | None, *, approved: bool) -> None:
        name, verdict = body["memory_id"], "positive" if approved else "negative"
        kind = "" if answered is None else answered.kind.removeprefix(KIND)
        self.feedback[Feedback((body["tenant_id"], body["source_id"]), verdict, name)] += 1
        self._ever.add((name, "trusted" if approved else "distrusted"))
        write = self._writes.get(name)
        if answered is None or write is None or answered.topic != REVIEWS:
            self.reviews.append(f"{name} was reviewed by no review")
            return
        asked = answered.message
        if asked["subject_id"] != name or asked["decision"] != ("approve" if approved else "reject"):
            self.reviews.append(f"{name} was reviewed otherwise than {asked} says")
        if (why := due_refusal(kind, quarantined=True, expired=False)) is not None:
            self.reviews.append(f"{name} was reviewed by one that is due to be refused: {why}")
        if approved:
            self.released[name] = ("approved", write)

    def _note_refusal(self, body: dict[str, Any], answered: Answered) -> None:
        asked = answered.message
        quarantine = self.quarantine(body["partition"])
        expired = self._expired_by.get(place_of(body)) == asked["subject_id"]
        is_quarantined = asked["subject_id"] in quarantine.quarantined
        due = due_refusal(answered.kind.removeprefix(KIND), quarantined=is_quarantined, expired=expired)
        self.tally[f"refused {body['reason']}"] += 1
        if due is None and asked["decision"] == "approve" and body["reason"] == UNAVAILABLE:
            return
        if due != body["reason"]:
            self.reviews.append(f"{place_of(body)} was refused as {body['reason']}, due {due}")
        gone = quarantine.ended.get(asked["subject_id"])
        if gone is not None and due == "unknown_subject" and _is_in_time(gone, answered):
            self.overtaken.append(asked["subject_id"])

    def _count(self, body: dict[str, Any]) -> None:
        is_registered = body["tenant_id"] is not None
        whose = (TENANT, body["agent_id"]) if is_registered else (UNREGISTERED, "")
        count = self.statistics.setdefault((body["partition"], *whose), [0] * 5)
        count[0] += 1
        count[COUNTED[body["action"]]] += 1

    def _resize(self, body: dict[str, Any], by: int) -> None:
        whose = (body["partition"], body["tenant_id"], body["agent_id"])
        self.statistics.setdefault(whose, [0] * 5)[4] += by


def memories(account: AnswerAccount, most: int) -> Memories:
    """Fold a whole run; `most` memories find room in a partition's quarantine."""
    recounted = Memories(most)
    for body in account.ledger:
        coordinates = place_of(body)
        recounted.take(body, None if coordinates is None else account.inputs.get(coordinates))
    return recounted


def _is_in_time(gone: dict[str, Any], answered: Answered) -> bool:
    """Whether time took a memory for which a good review had come before its end."""
    good = answered.kind.removeprefix(KIND) in {"approve", "reject"}
    return (
        good and gone["schema"] == EXPIRED and answered.record.timestamp_ms < milliseconds(gone["expires_at"])
    )


def trust_of(total: float | None) -> Trust | None:
    """What a memory's trust score means for what derives from it."""
    if total is None:
        return None
    if total < QUARANTINE_THRESHOLD:
        return "distrusted"
    return "doubted" if total < WRITE_THRESHOLD else "trusted"


def due_refusal(kind: str, *, quarantined: bool, expired: bool) -> str | None:
    """Why a review of this kind must be refused; None when it counts. `expired`: it found its memory so."""
    if not quarantined and not expired:
        return "unknown_subject"
    return REFUSALS.get(kind) or ("expired" if expired else None)
