"""How far stores' reports are covered by decisions once more, and what sessions remember for it.

Imports nothing of the core. A session remembers its last retrievals, whoever of a tenant asked, and of these
the ids of all items that were ever read under a request's id, at the tier of the last time; a report counts
by what its session remembers of the request.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from load.answers import place_of
from load.policy import TENANT
from load.retrieval_recount import COVERED, MOST_NAMED, along, tenant_of
from load.retrieval_rules import tier_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.adapters.kafka_read import StoredRecord
    from load.answers import Account, Answered

MOST_RETRIEVALS = 64
"""Of a session: of its one registered tenant, and as many of agents that nobody registered. Their items are
fewer in these runs than would find no room."""
STATE_KEY = b"s:"
RETRIEVALS_PLACE = 5
"""Of a tenant's retrievals in its stored account."""


@dataclass(slots=True)
class Coverage:
    """`remembered`: by session and tenant, tier and items of each request, the oldest first."""

    remembered: dict[bytes, dict[str, dict[str, tuple[str, set[str]]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    reports: int = 0
    covered: int = 0
    uncovered: int = 0
    problems: list[str] = field(default_factory=list)

    def retrieved(self, one: Answered) -> None:
        """The session remembers what it decided on."""
        asked = one.message
        kept = self.remembered[one.record.key or b""][tenant_of(asked["agent_id"])]
        _, before = kept.pop(asked["request_id"], ("", set[str]()))
        while len(kept) >= MOST_RETRIEVALS:
            del kept[next(iter(kept))]
        tier = tier_of(asked["agent_id"], asked.get("autonomy_tier"))
        kept[asked["request_id"]] = (tier, before | {item["item_id"] for item in asked["items"]})

    def reported(self, one: Answered, body: dict[str, Any]) -> None:
        """A report is counted as is due."""
        asked = one.message
        known = self.remembered[one.record.key or b""][tenant_of(asked["agent_id"])].get(asked["request_id"])
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

    def wrong_states(self, changelog: Iterable[StoredRecord]) -> list[str]:
        """Sessions whose state remembers other retrievals than these."""
        states = {one.key or b"": one.value for one in changelog if (one.key or b"").startswith(STATE_KEY)}
        problems = []
        for key, tenants in self.remembered.items():
            stored = json.loads(states.get(STATE_KEY + key) or b'{"a":{}}')["a"].get(TENANT, [])
            kept = [*stored[RETRIEVALS_PLACE]] if len(stored) > RETRIEVALS_PLACE else []
            if kept != [*tenants.get(TENANT, {})]:
                problems.append(f"{key.decode()} remembers {kept}, due {[*tenants.get(TENANT, {})]}")
        return problems


def coverage(account: Account) -> Coverage:
    """Of a whole run."""
    found = Coverage()
    along(account, found.retrieved, found.reported)
    return found
