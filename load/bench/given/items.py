"""The benchmarks' retrieved items: of all shipped classes, mostly in order, with bodies of the memory panel.

Of a hundred, eighty are in order and five each too old, too unsure, without a reference, with a wrong hash.
References are recorded in the registry: what a reference costs over the network is measured apart.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from load.bench.given import memory_writes
from load.bench.given.action_events import AT_MS
from sluice.core.foundation.arrival import Arrival
from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.quality_entries import make_provenance_id
from sluice.shipped import SHIPPED_FILES
from sluice_topics.catalog import RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

AGENT = "bench-agent"
QUALITY = SHIPPED_FILES / "quality" / "default.json"
REFERENCES = 50
CLASSES = ("legal_text", "product_pricing", "internal_policy", "public_reference")
HOUR_MS = 3_600_000
HASH = f"sha256:{7:064x}"
FAULTS: tuple[tuple[float, dict[str, Any]], ...] = (
    (0.05, {"timestamp": "2001-01-01T00:00:00.000Z"}),
    (0.05, {"confidence_score": 0.1}),
    (0.05, {"provenance_uri": None}),
    (0.05, {"provenance_hash": f"sha256:{8:064x}"}),
)


def uri(number: int) -> str:
    """One of the references that the registry records."""
    return f"https://library.example/texts/{number % REFERENCES}"


def entries(tenant: str) -> list[dict[str, Any]]:
    """The registry's entries about them, as they are written in its file."""
    return [
        {
            "kind": "provenance",
            "id": make_provenance_id(tenant, uri(number)),
            "revision": 1,
            "spec": {"tenant_id": tenant, "uri": uri(number), "hash": HASH},
        }
        for number in range(REFERENCES)
    ]


@dataclass(slots=True)
class Bodies:
    """1 KB texts of the memory panel, of which `fresh` is the share that nobody has read before."""

    fresh: float
    chance: random.Random
    _known: list[str] = field(default_factory=list)

    def next(self) -> str:
        """A text."""
        if not self._known:
            self._known = list(memory_writes.texts("benign", 64, self.chance))
        if self.chance.random() < self.fresh:
            return next(memory_writes.texts("benign", 1, self.chance))
        return self.chance.choice(self._known)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An origin ("http://host:port"), and the share of items whose reference leads there, each to another
    place."""

    origin: str
    share: float


def item(number: int, chance: random.Random, at_ms: int = AT_MS) -> dict[str, Any]:
    """An item without a body."""
    fields: dict[str, Any] = {
        "item_id": f"item-{number:07d}",
        "content_class": chance.choice(CLASSES),
        "timestamp": rfc3339(at_ms - chance.randrange(1, 20) * HOUR_MS),
        "confidence_score": round(0.8 + 0.2 * chance.random(), 3),
        "provenance_uri": uri(chance.randrange(REFERENCES)),
        "provenance_hash": HASH,
    }
    draw = chance.random()
    for share, fault in FAULTS:
        if draw < share:
            return fields | fault
        draw -= share
    return fields


def request(number: int, session: str, items: Sequence[dict[str, Any]]) -> bytes:
    """A request for them at the tier "bounded"."""
    fields = {
        "request_id": f"r-{number:07d}",
        "agent_id": AGENT,
        "session_id": session,
        "items": items,
        "autonomy_tier": "bounded",
        "traceId": f"trace-{number}",
    }
    return orjson.dumps(fields)


@dataclass(frozen=True, slots=True)
class Shape:
    """What every request is like: its number of items, their bodies and times, where some references lead."""

    items: int
    bodies: Bodies | None = None
    at_ms: int = AT_MS
    elsewhere: Elsewhere | None = None


def requests(count: int, sessions: int, seed: int, shape: Shape) -> Iterator[tuple[bytes, bytes]]:
    """`count` messages (key, value), spread evenly over `sessions`."""
    chance, items, bodies, elsewhere = random.Random(seed), shape.items, shape.bodies, shape.elsewhere
    for number in range(count):
        session = f"session-{seed}-{number % sessions:06d}"
        found = [item(number * items + place, chance, shape.at_ms) for place in range(items)]
        if bodies is not None:
            found = [one | {"body": bodies.next()} for one in found]
        if elsewhere is not None and chance.random() < elsewhere.share:
            found[0] = found[0] | {"provenance_uri": f"{elsewhere.origin}/{seed}/{number}"}
        yield session.encode(), request(number, session, found)


def arrivals(count: int, sessions: int, seed: int, shape: Shape) -> list[Arrival]:
    """The same as inputs of one partition."""
    messages = requests(count, sessions, seed, shape)
    return [Arrival(RETRIEVALS, 0, offset, AT_MS, key, value) for offset, (key, value) in enumerate(messages)]
