"""Retrievals along the ledger: each item decided once and in its place, all of a request under one policy,
its escalation open where its items wait for it, its references asked for.

Imports nothing of the core. What an item must come to is not worked out again: every decision is executed
again (load/recomputation/reruns.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from load.inputs.retrieval_traffic import Label
from load.installations.neutral_policy import AGENT, TENANT
from load.installations.quality_policy import BUNDLE, CATEGORY, NARROW
from load.recomputation.input_answers import place_of
from sluice_topics.catalog import REPORTED, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.recomputation.input_answers import AnswerAccount, Answered

DECISION = "sluice/quality_decision/v1"
ESCALATION = "sluice/retrieval_escalation_opened/v1"
COVERED = "sluice/retrieval_reported/v1"
MOST_NAMED = 100
UNKNOWN = "unknown"
"""The label of a reference that is not recorded and leads over the network."""
STRICT = ("sandbox", "bounded", "high_privilege")
REGISTERED_TIER = {AGENT: "sandbox", NARROW: "bounded"}
"""Of the agents that somebody registered."""


@dataclass(slots=True)
class Retrievals:
    """All retrievals of a run.

    `whole`: the inputs whose items were all decided, each in its place. `wanted`: by URI and time, how often
    a decision asked for it to be resolved. `problems` by the name of a figure.
    """

    whole: set[Any] = field(default_factory=set)
    wanted: Counter[tuple[str, str]] = field(default_factory=Counter)
    tally: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def check(self, answered: Answered) -> None:
        """Hold a readable retrieval's records against its items and one another."""
        where, items = place_of(answered.decisions[0]), answered.message["items"]
        decisions = [body for body in answered.decisions if body["schema"] == DECISION]
        decided = [(body["place"], body["item_id"]) for body in decisions]
        if decided != [(number, item["item_id"]) for number, item in enumerate(items)]:
            self._say("wrong_item_decisions", where, f"decided {decided}")
            return
        if len({_policy_of(body) for body in decisions}) != 1 or decisions[0]["quality_bundle_id"] != BUNDLE:
            self._say("wrong_item_decisions", where, "was not decided under one policy")
        self.whole.add(where)
        for body in decisions:
            self._count(body)
        self._escalations(where, answered, decisions)
        self._wants(items, decisions)

    def _count(self, body: dict[str, Any]) -> None:
        self.tally[body["outcome"]] += 1
        self.tally[body["stages"][-1]["stage"] if body["outcome"] == "deny" else "let through"] += 1
        self.tally["overridden"] += body["override"] is not None
        self.tally["flag_only"] += body["would_have_been"] in {"downgrade", "deny"}

    def _escalations(self, where: object, answered: Answered, decisions: list[dict[str, Any]]) -> None:
        """One for the request's items that wait for a person, if any do; it and they name each other."""
        opened = [
            (body["escalation_id"], [each["ledger_event_id"] for each in body["items"]])
            for body in answered.decisions
            if body["schema"] == ESCALATION
        ]
        waits = [body["ledger_event_id"] for body in decisions if _is_due_to_wait(body)]
        names = {
            body["ledger_event_id"]: body["escalation_id"] for body in decisions if body["escalation_id"]
        }
        self.tally["escalations"] += len(opened)
        due = [(next(iter(names.values()), None), waits)] if waits else []
        if opened != due or names != dict.fromkeys(waits, due[0][0] if due else None):
            self._say("wrong_escalations", where, f"{opened} {names}, due {waits}")

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


def _is_due_to_wait(body: dict[str, Any]) -> bool:
    """No rerun tells whether an escalation was opened."""
    denied = (body["outcome"], body["stages"][-1]["stage"]) == ("deny", "quality")
    return denied and (body["autonomy_tier"], body["tool_category"]) == (STRICT[-1], CATEGORY)


def retrievals(account: AnswerAccount) -> Retrievals:
    """All readable retrievals of a run, each once; one without any record is lost, as another figure says."""
    recounted = Retrievals()
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
    return TENANT if agent in REGISTERED_TIER else "unregistered"


def tier_of(agent: str, asked: str | None) -> str:
    """The stricter of both; the strictest where none is registered, whatever is asked."""
    registered = REGISTERED_TIER.get(agent, STRICT[-1])
    return registered if asked is None else max(registered, asked, key=STRICT.index)


def _reference(item_id: str) -> str:
    label = Label.read(item_id)
    return label.mark if label.mark == "source" else label.reference


def _policy_of(body: dict[str, Any]) -> tuple[Any, ...]:
    agent = next((name for name in body["registry_hashes"] if name.startswith("agent/")), None)
    return body["quality_bundle_hash"], body["bundle_hash"], agent
