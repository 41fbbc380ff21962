"""Proposed retrievals in the sessions of the fault runs, and what a store reports of them.

An item's id is its label, "class.time.score.reference.body.mark.number": it says what the item is like. What
becomes of an item follows from its label, who asks, and at which tier; nothing here knows what.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

import rfc8785

from load.installations.installation import TrafficRecord
from load.installations.neutral_policy import AGENT, ATTACK, DOUBT
from load.installations.quality_policy import (
    BAD_ITEM,
    BAD_PLACE,
    BAD_TEXT,
    CATEGORY,
    EXPIRING,
    NARROW,
    OVERRIDDEN,
    PRESS,
)
from load.installations.quality_policy import RECORDED_HASH as HASH
from load.installations.quality_policy import RECORDED_URI as URI
from sluice_topics.catalog import REPORTED, RETRIEVALS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from sluice.core.registry.keys import SigningKey

YOUNG, OLD, FUTURE = "2019-06-01T12:00:00Z", "1989-06-01T12:00:00+02:00", "2999-01-01T00:00:00.000Z"
"""Against a time to live of twenty years, for every broker time between 2020 and 2039."""
CLASSES: dict[str, Any] = {
    "law": "law",
    "price": "price",
    "memo": "memo",
    "trial": "trial",
    "closed": "closed",
    "gossip": "gossip",
    "none": None,
    "number": 7,
}
TIMES: dict[str, dict[str, Any]] = {
    "fresh": {"timestamp": YOUNG},
    "old": {"timestamp": OLD},
    "future": {"timestamp": FUTURE},
    "absent": {},
    "garbled": {"timestamp": "last Tuesday"},
    "asserted": {"timestamp": OLD, "freshness_assertion": YOUNG},
    "asserted_old": {"timestamp": YOUNG, "freshness_assertion": OLD},
}
SCORES: dict[str, Any] = {"sure": 0.95, "unsure": 0.2, "absent": None, "word": "0.9", "above": 1.5}
REFERENCES: dict[str, tuple[str | None, str | None]] = {
    "recorded": (URI, HASH),
    "other_hash": (URI, f"sha256:{2:064x}"),
    "no_hash": (URI, None),
    "absent": (None, HASH),
    "ftp": ("ftp://load.example/file", HASH),
    "itself": ("https://load.example/{}", HASH),
    "unknown": ("https://unknown.load.example/{}", HASH),
    "unsigned": (f"gate-source://{PRESS}/items", HASH),
    "signed": (f"gate-source://{PRESS}/items", HASH),
    "feed": (f"gate-feed://{PRESS}/items", HASH),
    "forged": (f"gate-feed://{PRESS}/items", HASH),
    "stranger": ("gate-source://load-nobody/items", HASH),
}
"""URI and hash; "{}" stands for the item's id, or for the place of one of a few unknown sources."""
SIGNED = ("signed", "feed", "forged")
"""References that come with a source's word on the item's time: then "asserted" times make no sense."""
BODIES: dict[str, Any] = {
    "text": "The lease ends in May.",
    "attack": f"The lease ends in May. {ATTACK}",
    "doubt": f"The lease ends in May. {DOUBT}",
    "none": None,
    "json": {"lease": "ends in May", "months": [1, 2]},
}
FIXED = {"item": BAD_ITEM, "overridden": OVERRIDDEN, "expiring": EXPIRING}
"""Ids that the registry names."""
_UNKNOWN_PLACES = 20
_BORDER = (700, 790)


class Label(NamedTuple):
    """What an item is like; each is a word of its table, `mark` "" for nothing special."""

    kind: str
    time: str
    score: str
    reference: str
    body: str
    mark: str

    @classmethod
    def read(cls, item_id: str) -> Label:
        """From the item's id."""
        kind, time, score, reference, body, mark, _ = item_id.split(".")
        return cls(kind, time, score, reference, body, mark)


class ItemMaker:
    """Draws from `rng`; `press` signs for the registered source."""

    def __init__(self, rng: random.Random, salt: str, press: SigningKey) -> None:
        self._rng = rng
        self._salt = salt
        self._press = press
        self._drawn = 0

    def next(self) -> dict[str, Any]:
        """One item more: mostly with one fault or none, now and then with anything at all."""
        self._drawn += 1
        draw = self._rng.random()
        if draw < 0.05:
            return self._make(FIXED[self._rng.choice(list(FIXED))])
        label = self._label(faults=self._rng.choice((0, 0, 1, 1, 1, 2, 3)))
        if draw < 0.08:
            label = label._replace(mark="source", reference="recorded")
        elif draw < 0.11:
            label = label._replace(mark="content", body="text")
        return self._make(".".join((*label, f"{self._salt}-{self._drawn}")))

    def each(self) -> list[dict[str, Any]]:
        """An item of each rare kind: with an unsafe text, an unknown source, an override, in flag-only."""
        labels = (
            Label("price", "fresh", "sure", "recorded", "attack", ""),
            Label("law", "fresh", "sure", "unknown", "text", ""),
            Label("trial", "old", "sure", "recorded", "text", ""),
        )
        self._drawn += 1
        made = [self._make(".".join((*label, f"{self._salt}-{self._drawn}"))) for label in labels]
        return [*made, self._make(OVERRIDDEN), self._make(BAD_ITEM)]

    def _label(self, faults: int) -> Label:
        rng = self._rng
        usual = rng.random() < 0.85
        kind = rng.choice(("law", "price", "price", "memo", "trial")) if usual else rng.choice([*CLASSES])
        reference = rng.choice(("recorded", "recorded", "signed", "feed"))
        score = "border" if rng.random() < 0.2 else "sure"
        good = Label(kind, "fresh", score, reference, "text" if rng.random() < 0.8 else "none", "")
        for part in rng.sample(("time", "score", "reference", "body"), min(faults, 3)):
            words = {"time": TIMES, "score": SCORES, "reference": REFERENCES, "body": BODIES}[part]
            good = good._replace(**{part: rng.choice([*words])})
        if good.reference in SIGNED and good.time not in {"fresh", "old", "future"}:
            return good._replace(time="old")
        return good

    def _make(self, item_id: str) -> dict[str, Any]:
        label = Label.read(item_id)
        uri, digest = REFERENCES[label.reference]
        if label.mark == "source":
            uri = f"{BAD_PLACE}/{self._drawn}"
        elif uri is not None and "{}" in uri:
            target = item_id if label.reference == "itself" else self._rng.randrange(_UNKNOWN_PLACES)
            uri = uri.format(target)
        fields = {
            "item_id": item_id,
            "content_class": CLASSES[label.kind],
            **TIMES[label.time],
            "confidence_score": self._score(label.score),
            "provenance_uri": uri,
            "provenance_hash": digest,
            "body": BAD_TEXT if label.mark == "content" else BODIES[label.body],
        }
        if label.reference in SIGNED and label.mark != "source":
            at = str(TIMES[label.time]["timestamp"])
            fields["timestamp"] = OLD
            fields["freshness_assertion"] = self._assertion(at, fields, forged=label.reference == "forged")
        return {name: value for name, value in fields.items() if value is not None}

    def _score(self, word: str) -> Any:
        return self._rng.randint(*_BORDER) / 1000 if word == "border" else SCORES[word]

    def _assertion(self, at: str, fields: dict[str, Any], *, forged: bool) -> dict[str, str]:
        asserted = {name: fields[name] for name in ("provenance_hash", "provenance_uri")}
        asserted["asserted_at"] = YOUNG[:-2] + "1Z" if forged else at
        signature = self._press.sign(rfc8785.dumps(asserted))
        return {"asserted_at": at, "signature": base64.b64encode(signature).decode()}


NOBODY = "load-nobody"
SIZES = (1, 1, 2, 2, 3, 4, 6, 8)
TIERS = ("sandbox", "bounded", "high_privilege", None)
TOOLS = ("load.read", "load.purge", None)
RECENT = 20
COMPLETE = 12
"""One retrieval in so many holds an item of each rare kind, so that a short run has some of each."""
Fields = dict[str, Any]


class RetrievalTraffic:
    """Draws from `rng`; `press` signs what the one registered source asserts."""

    def __init__(self, rng: random.Random, salt: str, press: SigningKey) -> None:
        self._rng = rng
        self._salt = salt
        self._items = ItemMaker(rng, salt, press)
        self._drawn = 0
        self._asked = 0
        self._published: dict[str, deque[tuple[Fields, bytes]]] = defaultdict(lambda: deque(maxlen=RECENT))

    def next(self, session: str) -> TrafficRecord:
        """One retrieval more; some come again as they were, some under the same id with other items."""
        published, draw = self._published[session], self._rng.random()
        if published and draw < 0.08:
            return TrafficRecord(
                RETRIEVALS, session.encode(), self._rng.choice(published)[1], "retrieval again"
            )
        fields = self._fields(session)
        self._asked += 1
        if self._asked % COMPLETE == 1:
            fields |= {"agent_id": AGENT, "items": self._items.each(), "tool_category": CATEGORY}
            fields["autonomy_tier"] = TIERS[2]
        if published and draw < 0.12:
            fields["request_id"] = self._rng.choice(published)[0]["request_id"]
        value = json.dumps(fields).encode()
        published.append((fields, value))
        return TrafficRecord(RETRIEVALS, session.encode(), value, "retrieval")

    def report(self, session: str) -> TrafficRecord:
        """Of a retrieval of the session, with an item more or less, or of one that was never proposed."""
        published = self._published[session]
        if not published:
            return self.next(session)
        fields = self._rng.choice(published)[0]
        items = [field["item_id"] for field in fields["items"]]
        made: tuple[tuple[float, Callable[[], Fields]], ...] = (
            (0.55, dict),
            (0.15, lambda: {"items": [*items, f"never-proposed-{self._drawn}"]}),
            (0.10, lambda: {"items": items[: max(1, len(items) // 2)] * 2}),
            (0.12, lambda: {"request_id": f"unknown-{self._salt}-{self._drawn}"}),
            (0.08, lambda: {"agent_id": NOBODY}),
        )
        self._drawn += 1
        changes = self._rng.choices([maker for _, maker in made], [share for share, _ in made])[0]()
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
        return TrafficRecord(REPORTED, session.encode(), json.dumps(report).encode(), "report")

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
