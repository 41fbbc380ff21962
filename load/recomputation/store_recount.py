"""What agents were let see of retrieved items: every request once, each item covered by its decision.

How far stores' reports are covered by decisions once more, and what sessions remember for it.

Imports nothing of the core. A session remembers the last retrievals of each registered agent, and of these
the ids of all items that were ever read under a request's id, at the tier of the last time; a report counts
by what its session remembers of the request, whichever agents asked.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from load.installations.neutral_policy import TENANT
from load.recomputation.input_answers import place_of
from load.recomputation.quarantine_recount import milliseconds
from load.recomputation.retrieval_recount import COVERED, DECISION, MOST_NAMED, along, tenant_of, tier_of
from load.recomputation.stored_sessions import RETRIEVALS, StoredSession, read_stored_sessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from load.recomputation.input_answers import AnswerAccount, Answered, Place
    from load.recomputation.retrieval_recount import Retrievals
    from sluice.adapters.kafka.kafka_read import StoredRecord


MOST_RETRIEVALS = 64
"""Of an agent in a session; of one that nobody registered there are none. Their items are fewer in these runs
than would find no room."""


@dataclass(slots=True)
class CoverageRecount:
    """`remembered`: by session and agent, offset, tier and items of each request, the oldest first."""

    remembered: dict[bytes, dict[str, dict[str, tuple[int, str, set[str]]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    reports: int = 0
    covered: int = 0
    uncovered: int = 0
    problems: list[str] = field(default_factory=list)

    def note_retrieval(self, answered: Answered) -> None:
        """The session remembers what it decided on."""
        asked = answered.message
        if tenant_of(asked["agent_id"]) != TENANT:
            return
        remembered = self.remembered[answered.record.key or b""][asked["agent_id"]]
        _, _, before = remembered.pop(asked["request_id"], (0, "", set[str]()))
        while len(remembered) >= MOST_RETRIEVALS:
            del remembered[next(iter(remembered))]
        tier = tier_of(asked["agent_id"], asked.get("autonomy_tier"))
        items = before | {item["item_id"] for item in asked["items"]}
        remembered[asked["request_id"]] = (answered.record.offset, tier, items)

    def note_report(self, answered: Answered, body: dict[str, Any]) -> None:
        """A report is counted as is due."""
        asked = answered.message
        remembered = self._find_known(answered, asked)
        decided: set[str] = set() if remembered is None else remembered[1]
        items = [*dict.fromkeys(asked["items"])]
        missing = [item for item in items if item not in decided]
        due = {
            "schema": COVERED,
            "report_id": asked["report_id"],
            "request_id": asked["request_id"],
            "autonomy_tier": remembered[0]
            if remembered is not None
            else tier_of(asked["agent_id"], asked.get("autonomy_tier")),
            "reported": len(items),
            "covered": len(items) - len(missing),
            "uncovered": missing[:MOST_NAMED],
        }
        observed = {name: body.get(name) for name in due}
        self.reports += 1
        self.covered += len(items) - len(missing)
        self.uncovered += len(missing)
        if observed != due:
            self.problems.append(f"{place_of(body)}: {observed}, due {due}")

    def _find_known(self, answered: Answered, asked: dict[str, Any]) -> tuple[str, set[str]] | None:
        """Tier of the last time and all items; all registered agents of these runs are of one tenant."""
        if tenant_of(asked["agent_id"]) != TENANT:
            return None
        agents = self.remembered[answered.record.key or b""].values()
        matches = [agent[asked["request_id"]] for agent in agents if asked["request_id"] in agent]
        if not matches:
            return None
        return max(matches, key=lambda match: match[0])[1], set().union(*(items for _, _, items in matches))

    def wrong_states(self, changelog: Iterable[StoredRecord]) -> list[str]:
        """Sessions whose state remembers other retrievals than these."""
        states = read_stored_sessions(changelog)
        problems = []
        for key, agents in self.remembered.items():
            state = states.get(key, StoredSession())
            for agent, due in agents.items():
                names = state.names(TENANT, agent, RETRIEVALS)
                if names != [*due]:
                    problems.append(f"{key.decode()} remembers {names} of {agent}, due {[*due]}")
        return problems


def coverage(account: AnswerAccount) -> CoverageRecount:
    """Of a whole run."""
    recount = CoverageRecount()
    along(account, recount.note_retrieval, recount.note_report)
    return recount


ASKED_AGAIN_MS = 30_000
"""A partition that asked for a reference does so again after this time, and not before."""
FLAGS = ("stale", "low_confidence", "provenance_missing", "provenance_unverified", "content_suspect")


def wrong_served(
    account: AnswerAccount, retrievals: Retrievals, served: Iterable[StoredRecord]
) -> Iterator[str]:
    """Requests that were served twice, not at all, in another session, or otherwise than was decided."""
    due = set(retrievals.whole)
    for record in served:
        body = json.loads(record.value or b"null")
        coordinates = _place(body["served_id"])
        if coordinates not in due:
            yield f"{body['served_id']} was served twice, or without being due"
            continue
        due.remove(coordinates)
        answered = account.inputs[coordinates]
        if (record.key, record.partition) != (answered.record.key, answered.record.partition):
            yield f"{body['served_id']} was served to another session"
        if body["input"] != _coordinates(coordinates, answered.record):
            yield f"{body['served_id']} names another input"
        if (wrong := _wrong(answered, body)) is not None:
            yield f"{body['served_id']}: {wrong}"
    yield from (f"{position} was not served" for position in due)


def wrong_wanted(retrievals: Retrievals, wanted: Iterable[StoredRecord]) -> list[str]:
    """References that were asked for and are not due, or under another key; or that are due, and no record
    asks for them within this time.

    A decision's time is its input's, and the decisions of a partition are not written in the order of these:
    sessions do not wait for one another. So of two wishes the later one may stand for the earlier.
    """
    asked: dict[str, list[int]] = defaultdict(list)
    there: Counter[tuple[str, str]] = Counter()
    problems = []
    for record in wanted:
        body = json.loads(record.value or b"null")
        asked[body["uri"]].append(milliseconds(body["decided_at"]))
        there[body["uri"], body["decided_at"]] += body["wanted_by"] == "retrieval"
        if json.loads(record.key or b"null") != [body["tenant_id"], body["uri"]]:
            problems.append(f"{body} under the key {record.key!r}")
    problems += [
        f"{reference} was asked for {count} times too often"
        for reference, count in (there - retrievals.wanted).items()
    ]
    return problems + [
        f"{uri} was not asked for at {at}, nor near it"
        for uri, at in retrievals.wanted
        if not any(abs(milliseconds(at) - asked_ms) < ASKED_AGAIN_MS for asked_ms in asked[uri])
    ]


def _wrong(answered: Answered, body: dict[str, Any]) -> str | None:
    asked = answered.message["items"]
    let_through, withheld = [], []
    for decision in [each for each in answered.decisions if each["schema"] == DECISION]:
        if decision["outcome"] == "deny":
            withheld.append(_withheld(decision))
            continue
        item = asked[decision["place"]]
        value = item.get("body") if decision["body_released"] else None
        flags = {flag: flag in decision["flags_set"] for flag in FLAGS}
        let_through.append((item["item_id"], decision["ledger_event_id"], decision["outcome"], flags, value))
    names = ("item_id", "ledger_event_id", "outcome", "flags", "body")
    served = [tuple(item[name] for name in names) for item in body["items"]]
    if served != let_through:
        return f"served {served}, due {let_through}"
    return None if body["withheld"] == withheld else f"withheld {body['withheld']}, due {withheld}"


def _withheld(decision: dict[str, Any]) -> dict[str, Any]:
    return {name: decision[name] for name in ("item_id", "ledger_event_id", "reason_codes", "escalation_id")}


def _coordinates(coordinates: Place, record: StoredRecord) -> dict[str, Any]:
    digest = "sha256:" + sha256(record.value or b"").hexdigest()
    at = dict(zip(("topic", "partition", "offset"), coordinates, strict=True))
    return {**at, "timestamp": record.timestamp_ms, "digest": digest}


def _place(served_id: str) -> Place:
    _, topic, partition, offset = served_id.split(":")
    return topic, int(partition), int(offset)
