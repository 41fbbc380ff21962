"""Proposed retrievals in the sessions of the fault runs, and what a store reports of them.

What becomes of an item follows from its label (load/inputs/item_labels.py), who asks, and at which tier.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from load.inputs.item_labels import ItemMaker
from load.sites.events import Event
from load.sites.policy import AGENT
from load.sites.quality_policy import CATEGORY, NARROW
from topics.catalog import REPORTED, RETRIEVALS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from app.core.registry.keys import SigningKey

NOBODY = "load-nobody"
SIZES = (1, 1, 2, 2, 3, 4, 6, 8)
TIERS = ("sandbox", "bounded", "high_privilege", None)
TOOLS = ("load.read", "load.purge", None)
RECENT = 20
Fields = dict[str, Any]


class RetrievalTraffic:
    """Draws from `rng`; `press` signs what the one registered source asserts."""

    def __init__(self, rng: random.Random, salt: str, press: SigningKey) -> None:
        self._rng = rng
        self._salt = salt
        self._items = ItemMaker(rng, salt, press)
        self._drawn = 0
        self._published: dict[str, deque[tuple[Fields, bytes]]] = defaultdict(lambda: deque(maxlen=RECENT))

    def next(self, session: str) -> Event:
        """One retrieval more; some come again as they were, some under the same id with other items."""
        known, draw = self._published[session], self._rng.random()
        if known and draw < 0.08:
            return Event(RETRIEVALS, session.encode(), self._rng.choice(known)[1], "retrieval again")
        fields = self._fields(session)
        if known and draw < 0.12:
            fields["request_id"] = self._rng.choice(known)[0]["request_id"]
        value = json.dumps(fields).encode()
        known.append((fields, value))
        return Event(RETRIEVALS, session.encode(), value, "retrieval")

    def report(self, session: str) -> Event:
        """Of a retrieval of the session, with an item more or less, or of one that was never proposed."""
        known = self._published[session]
        if not known:
            return self.next(session)
        fields = self._rng.choice(known)[0]
        items = [one["item_id"] for one in fields["items"]]
        made: tuple[tuple[float, Callable[[], Fields]], ...] = (
            (0.55, dict),
            (0.15, lambda: {"items": [*items, f"never-proposed-{self._drawn}"]}),
            (0.10, lambda: {"items": items[: max(1, len(items) // 2)] * 2}),
            (0.12, lambda: {"request_id": f"unknown-{self._salt}-{self._drawn}"}),
            (0.08, lambda: {"agent_id": NOBODY}),
        )
        self._drawn += 1
        changes = self._rng.choices([one for _, one in made], [share for share, _ in made])[0]()
        report = {
            "report_id": f"p-{self._salt}-{self._drawn}",
            "request_id": fields["request_id"],
            "agent_id": fields["agent_id"],
            "session_id": session,
            "items": items,
            "reported_by": "load-store",
            **self._tier(),
            **changes,
        }
        return Event(REPORTED, session.encode(), json.dumps(report).encode(), "report")

    def _fields(self, session: str) -> Fields:
        rng = self._rng
        self._drawn += 1
        fields: Fields = {
            "request_id": f"r-{self._salt}-{self._drawn}",
            "agent_id": rng.choices((AGENT, NARROW, NOBODY), (0.8, 0.15, 0.05))[0],
            "session_id": session,
            "items": [self._items.next() for _ in range(rng.choice(SIZES))],
            "toolName": rng.choice(TOOLS),
            "tool_category": rng.choice((CATEGORY, "load.reading", None)),
            **self._tier(),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _tier(self) -> Fields:
        tier = self._rng.choice(TIERS)
        return {} if tier is None else {"autonomy_tier": tier}
