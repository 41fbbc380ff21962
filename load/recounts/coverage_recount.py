"""How far stores' reports are covered by decisions once more, and what sessions remember for it.

Imports nothing of the core. A session remembers the last retrievals of each registered agent, and of these
the ids of all items that were ever read under a request's id, at the tier of the last time; a report counts
by what its session remembers of the request, whichever agents asked.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from load.recounts.input_answers import place_of
from load.recounts.retrieval_recount import COVERED, MOST_NAMED, along, tenant_of
from load.recounts.retrieval_rules import tier_of
from load.sites.neutral_policy import TENANT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.adapters.kafka.kafka_read import StoredRecord
    from load.recounts.input_answers import AnswerAccount, Answered

MOST_RETRIEVALS = 64
"""Of an agent in a session; of one that nobody registered there are none. Their items are fewer in these runs
than would find no room."""
STATE_KEY = b"s:"
AGENTS_PLACE, RETRIEVALS_PLACE = 2, 3
"""Of what is remembered by agent in a tenant's stored account, and of an agent's retrievals in that."""


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

    def retrieved(self, one: Answered) -> None:
        """The session remembers what it decided on."""
        asked = one.message
        if tenant_of(asked["agent_id"]) != TENANT:
            return
        kept = self.remembered[one.record.key or b""][asked["agent_id"]]
        _, _, before = kept.pop(asked["request_id"], (0, "", set[str]()))
        while len(kept) >= MOST_RETRIEVALS:
            del kept[next(iter(kept))]
        tier = tier_of(asked["agent_id"], asked.get("autonomy_tier"))
        items = before | {item["item_id"] for item in asked["items"]}
        kept[asked["request_id"]] = (one.record.offset, tier, items)

    def reported(self, one: Answered, body: dict[str, Any]) -> None:
        """A report is counted as is due."""
        asked = one.message
        known = self._known(one, asked)
        decided: set[str] = set() if known is None else known[1]
        items = [*dict.fromkeys(asked["items"])]
        missing = [item for item in items if item not in decided]
        due = {
            "schema": COVERED,
            "report_id": asked["report_id"],
            "request_id": asked["request_id"],
            "autonomy_tier": known[0]
            if known is not None
            else tier_of(asked["agent_id"], asked.get("autonomy_tier")),
            "reported": len(items),
            "covered": len(items) - len(missing),
            "uncovered": missing[:MOST_NAMED],
        }
        found = {name: body.get(name) for name in due}
        self.reports += 1
        self.covered += len(items) - len(missing)
        self.uncovered += len(missing)
        if found != due:
            self.problems.append(f"{place_of(body)}: {found}, due {due}")

    def _known(self, one: Answered, asked: dict[str, Any]) -> tuple[str, set[str]] | None:
        """Tier of the last time and all items; all registered agents of these runs are of one tenant."""
        if tenant_of(asked["agent_id"]) != TENANT:
            return None
        agents = self.remembered[one.record.key or b""].values()
        found = [kept[asked["request_id"]] for kept in agents if asked["request_id"] in kept]
        if not found:
            return None
        return max(found, key=lambda kept: kept[0])[1], set().union(*(items for _, _, items in found))

    def wrong_states(self, changelog: Iterable[StoredRecord]) -> list[str]:
        """Sessions whose state remembers other retrievals than these."""
        states = {one.key or b"": one.value for one in changelog if (one.key or b"").startswith(STATE_KEY)}
        problems = []
        for key, agents in self.remembered.items():
            account = json.loads(states.get(STATE_KEY + key) or b'{"a":{}}')["a"].get(TENANT, [0, 0, {}])
            for agent, due in agents.items():
                stored = account[AGENTS_PLACE].get(agent, [])
                kept = [*stored[RETRIEVALS_PLACE]] if len(stored) > RETRIEVALS_PLACE else []
                if kept != [*due]:
                    problems.append(f"{key.decode()} remembers {kept} of {agent}, due {[*due]}")
        return problems


def coverage(account: AnswerAccount) -> CoverageRecount:
    """Of a whole run."""
    found = CoverageRecount()
    along(account, found.retrieved, found.reported)
    return found
