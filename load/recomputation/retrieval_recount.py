"""What became of retrieved items once more, along the ledger, by the tables of
load/recomputation/retrieval_rules.py.

Imports nothing of the core. The ledger says in which order a partition decided and under which revision of
the quality bundle; everything else follows from the inputs.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import rfc8785

from load.inputs.retrieval_traffic import Label
from load.installations.neutral_policy import TENANT
from load.installations.quality_policy import BUNDLE, EXPIRES_AFTER_MS, document, minimum
from load.recomputation.input_answers import place_of
from load.recomputation.retrieval_rules import NOBODY, AskedRequest, DueItem, due_item, tier_of
from sluice_topics.catalog import REPORTED, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.recomputation.input_answers import AnswerAccount, Answered

DECISION = "sluice/quality_decision/v1"
ESCALATION = "sluice/retrieval_escalation_opened/v1"
COVERED = "sluice/retrieval_reported/v1"
MOST_NAMED = 100
LAST_REVISION = 600
"""Of the quality bundle: more than any run publishes."""
UNKNOWN = "unknown"
"""The label of a reference that is not recorded and leads over the network."""


@dataclass(slots=True)
class Retrievals:
    """All retrievals of a run.

    `due`: what each item must come to, by input and place. `wanted`: by URI and time, how often a decision
    asked for it to be resolved. `problems` by the name of a figure.
    """

    began_ms: int
    due: dict[tuple[Any, int], DueItem] = field(default_factory=dict)
    wanted: Counter[tuple[str, str]] = field(default_factory=Counter)
    tally: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def check(self, answered: Answered) -> None:
        """Hold a readable retrieval's records against what is due."""
        where, asked = place_of(answered.decisions[0]), answered.message
        decisions = [body for body in answered.decisions if body["schema"] == DECISION]
        escalations = [body for body in answered.decisions if body["schema"] == ESCALATION]
        if [body["place"] for body in decisions] != list(range(len(asked["items"]))):
            self._say("wrong_item_decisions", where, f"decided {[body['place'] for body in decisions]}")
            return
        if len({_policy_of(body) for body in decisions}) != 1 or decisions[0]["quality_bundle_id"] != BUNDLE:
            self._say("wrong_item_decisions", where, "was not decided under one policy")
        due = [self._due(answered, body) for body in decisions]
        for body, item in zip(decisions, due, strict=True):
            self._compare(body, item, answered)
        pairs = zip(decisions, due, strict=True)
        self._escalations(answered, escalations, [body for body, item in pairs if item.escalates])
        self._wants(asked["items"], decisions)

    def _due(self, answered: Answered, body: dict[str, Any]) -> DueItem:
        asked = answered.message
        item, agent = asked["items"][body["place"]], asked["agent_id"]
        label, tier = Label.read(item["item_id"]), tier_of(agent, asked.get("autonomy_tier"))
        lowest = _minima().get(body["quality_bundle_hash"])
        if lowest is None:
            self._say("wrong_item_decisions", place_of(body), "was judged under a bundle that nobody made")
        overridden = label.mark == "overridden" or (
            label.mark == "expiring" and answered.record.timestamp_ms < self.began_ms + EXPIRES_AFTER_MS
        )
        score = item.get("confidence_score")
        request = AskedRequest(agent, tier, asked.get("tool_category"), lowest or 1.0)
        due = due_item(request, label, score, overridden=overridden)
        self.due[place_of(body), body["place"]] = due
        self._count(due)
        return due

    def _count(self, due: DueItem) -> None:
        self.tally[due.outcome] += 1
        self.tally[due.stages[-1] if due.outcome == "deny" else "let through"] += 1
        self.tally["overridden"] += due.overridden
        self.tally["flag_only"] += due.would_have_been in {"downgrade", "deny"}

    def _compare(self, body: dict[str, Any], due: DueItem, answered: Answered) -> None:
        item = answered.message["items"][body["place"]]
        expected = {
            "item_id": item["item_id"],
            "outcome": due.outcome,
            "flags_set": [*due.flags],
            "reason_codes": [*due.codes],
            "rollout": due.rollout,
            "would_have_been": due.would_have_been,
            "body_released": due.released,
            "provenance_hash_verified": bool(due.dimensions) and _is_verified(item["item_id"]),
            "autonomy_tier": tier_of(body["agent_id"], answered.message.get("autonomy_tier")),
            "stages": [*due.stages],
            "dimensions": [*due.dimensions],
            "overridden": due.overridden,
        }
        decided = {name: body[name] for name in expected if name != "overridden"}
        decided["stages"] = [stage["stage"] for stage in body["stages"]]
        decided["dimensions"] = [dimension["passed"] for dimension in body["dimensions"]]
        decided["overridden"] = body["override"] is not None
        wrong = {
            name: (decided[name], expected[name]) for name in expected if decided[name] != expected[name]
        }
        if wrong:
            self._say("wrong_item_decisions", f"{place_of(body)} {item['item_id']}", f"(is, due) {wrong}")

    def _escalations(
        self, answered: Answered, opened: list[dict[str, Any]], due: list[dict[str, Any]]
    ) -> None:
        """One for the request's items that wait for a person, if any do, and each of them names it."""
        self.tally["escalations"] += bool(due)
        named = [[each["ledger_event_id"] for each in body["items"]] for body in opened]
        expected = [[body["ledger_event_id"] for body in due]] if due else []
        ids = {body["escalation_id"] for body in opened}
        escalations = {
            body["place"]: body["escalation_id"] for body in answered.decisions if body["schema"] == DECISION
        }
        pointing = {position: an_id for position, an_id in escalations.items() if an_id is not None}
        if named != expected or pointing != {body["place"]: next(iter(ids), None) for body in due}:
            self._say(
                "wrong_escalations", place_of(answered.decisions[0]), f"{named} {pointing}, due {expected}"
            )

    def _wants(self, items: list[dict[str, Any]], decisions: list[dict[str, Any]]) -> None:
        """Each reference of a request once, if nothing is recorded of it yet."""
        uris = {
            item["provenance_uri"]: body["decided_at"]
            for item, body in zip(items, decisions, strict=True)
            if body["dimensions"] and body["seen"] is None and _reference(item["item_id"]) == UNKNOWN
        }
        self.wanted.update(uris.items())

    def _say(self, name: str, where: object, what: str) -> None:
        self.problems[name].append(f"{where}: {what}")


def retrievals(account: AnswerAccount, began_ms: int) -> Retrievals:
    """All readable retrievals of a run, each once; one without any record is lost, as another figure says."""
    recounted = Retrievals(began_ms)
    for answered in account.inputs.values():
        if answered.topic == RETRIEVALS and answered.readable and answered.decisions:
            recounted.check(answered)
    return recounted


def along(
    account: AnswerAccount, retrieved: Callable[[Answered], None], reported: Callable[[Answered, Any], None]
) -> None:
    """Readable retrievals at their first record, and reports at theirs, in the ledger's order."""
    visited: set[Any] = set()
    for body in account.ledger:
        coordinates = place_of(body)
        answered = None if coordinates is None else account.inputs.get(coordinates)
        if answered is None or coordinates in visited or not answered.readable:
            continue
        if answered.topic == RETRIEVALS:
            retrieved(answered)
        elif answered.topic == REPORTED:
            reported(answered, body)
        visited.add(coordinates)


def tenant_of(agent: str) -> str:
    """Whose account remembers what an agent read."""
    return "unregistered" if agent == NOBODY else TENANT


def _reference(item_id: str) -> str:
    label = Label.read(item_id)
    return label.mark if label.mark == "source" else label.reference


def _is_verified(item_id: str) -> bool:
    return _reference(item_id) in {"recorded", "signed", "feed"}


def _policy_of(body: dict[str, Any]) -> tuple[Any, ...]:
    agent = next((name for name in body["registry_hashes"] if name.startswith("agent/")), None)
    return body["quality_bundle_hash"], body["bundle_hash"], agent


@cache
def _minima() -> dict[str, float]:
    """Of every revision that could count, by the hash that a decision under it names."""
    return {digest_of(document(revision)): minimum(revision) for revision in range(1, LAST_REVISION, 2)}


def digest_of(written: dict[str, Any]) -> str:
    """As decisions name a document."""
    return f"sha256:{hashlib.sha256(rfc8785.dumps(written)).hexdigest()}"
