"""Retrievals in the sessions of the actions: drawn by the library's rule, and one session's story.

Items are as a store would hand them over: a text with its age, its score, and what stands behind it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.core.foundation.clock import rfc3339
from app.core.retrieval.provenance_check import signed_assertion
from app.demo.inputs.panel_sessions import REPEATING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.trust.dsse import Signer
    from app.demo.inputs.demo_config import LibraryText, ReadingLibrary, StoryItem
    from app.demo.inputs.panel_sessions import PlannedSession

VERIFIED, ALTERED, MISSING = "verified", "altered", ""
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """Of one item in one reading. `reference`: VERIFIED, ALTERED, MISSING, or an URI of which nobody recorded
    anything."""

    item_id: str
    content_class: str
    text: str
    age_ms: int
    score: float
    reference: str


class ItemStore:
    """Hands over items at one moment; `feed` signs for the sources that do."""

    def __init__(self, library: ReadingLibrary, feed: Signer, now_ms: int) -> None:
        self._library = library
        self._feed = feed
        self._now_ms = now_ms

    def item(self, facts: ReadingFacts) -> dict[str, Any]:
        """A RetrievedItem by wire names."""
        made = {
            "item_id": facts.item_id,
            "content_class": facts.content_class,
            "timestamp": rfc3339(self._now_ms - facts.age_ms),
            "confidence_score": facts.score,
            "body": facts.text,
        }
        if facts.reference == MISSING:
            return made
        made |= {"provenance_uri": self._uri(facts), "provenance_hash": digest_of(facts.text)}
        if self._library.source_of(facts.content_class).by == "signed":
            made = self._asserted(made)
        if facts.reference == ALTERED:
            made["provenance_hash"] = digest_of(f"{facts.text} (as it is now)")
        return made

    def story_item(self, one: StoryItem) -> dict[str, Any]:
        """An item of the story."""
        age_ms = round(one.age_days * _DAY_MS)
        return self.item(
            ReadingFacts(one.item_id, one.content_class, one.text, age_ms, one.score, one.reference)
        )

    def _uri(self, facts: ReadingFacts) -> str:
        if facts.reference in (VERIFIED, ALTERED):
            return uri_of(self._library, facts.content_class, facts.text)
        return facts.reference

    def _asserted(self, made: dict[str, Any]) -> dict[str, Any]:
        """The feed's signed word in place of the timestamp."""
        asserted_at = made.pop("timestamp")
        signed = signed_assertion(asserted_at, made["provenance_uri"], made["provenance_hash"])
        signature = base64.b64encode(self._feed.sign(signed)).decode()
        return made | {"freshness_assertion": {"asserted_at": asserted_at, "signature": signature}}


def uri_of(library: ReadingLibrary, content_class: str, text: str) -> str:
    """The reference under which the class's source has the text."""
    return library.source_of(content_class).uri + digest_of(text).removeprefix("sha256:")[:12]


def digest_of(text: str) -> str:
    """ "sha256:" and the hex digest of its UTF-8."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


STORY_READ, STORY_CONTRACT, STORY_AGAIN = "story-read", "story-contract", "story-contract-again"
ACKNOWLEDGING, SILENT = 1, 2
"""Which of the story's actions names the flags of what was read before it, and which does not."""
HIGH_PRIVILEGE = "high_privilege"
_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """Draws what ordinary sessions read."""

    library: ReadingLibrary
    quality: QualityBundle
    store: ItemStore
    rng: random.Random

    def of(self, session: PlannedSession) -> Iterator[dict[str, Any]]:
        """One retrieval for every so many actions."""
        rule = self.library.rule
        for number in range(-(-len(session.actions) // rule.actions_each)):
            texts = self.rng.sample(list(enumerate(self.library.text)), self.rng.randint(1, rule.items_most))
            items = [self.store.item(self._facts(place, text)) for place, text in texts]
            category = self.rng.choice(rule.categories)
            yield request(session, f"{session.id}-read-{number}", items, tool_category=category)

    def _facts(self, place: int, text: LibraryText) -> ReadingFacts:
        return ReadingFacts(
            f"{text.content_class}-{place:02}",
            text.content_class,
            text.text,
            self._age_ms(text),
            self._score(text),
            self._reference(),
        )

    def _age_ms(self, text: LibraryText) -> int:
        rule = self.library.rule
        ttl_s = self.quality.file.ttl_by_class[text.content_class] or 0
        low, high = rule.stale_age if self._happens(rule.stale) else rule.fresh_age
        return round(1000 * ttl_s * self.rng.uniform(low, high))

    def _score(self, text: LibraryText) -> float:
        least = self.quality.file.min_confidence_by_class[text.content_class]
        low, high = (0.0, least) if self._happens(self.library.rule.unsure) else (least, 1.0)
        # Rounded down to a step, so that a score drawn below the minimum stays below it.
        return max(low, int(self.rng.uniform(low, high) * _STEPS) / _STEPS)

    def _reference(self) -> str:
        rule = self.library.rule
        if self._happens(rule.unsourced):
            return MISSING
        return ALTERED if self._happens(rule.altered) else VERIFIED

    def _happens(self, share: float) -> bool:
        return self.rng.random() < share


def with_retrievals(sessions: Sequence[PlannedSession], reading: Reading) -> list[PlannedSession]:
    """The sessions, each ordinary one with what it reads; the story's has an action that acknowledges."""
    return [
        _acknowledging(session)
        if session.id == REPEATING
        else replace(session, reads=tuple(reading.of(session)))
        for session in sessions
    ]


def story(
    sessions: Sequence[PlannedSession], library: ReadingLibrary, store: ItemStore
) -> list[dict[str, Any]]:
    """What the story's session reads before it acts: one thing of every kind; and what a contract needs."""
    session = next(one for one in sessions if one.id == REPEATING)
    read = [store.story_item(one) for one in library.story.read]
    needed = [store.story_item(one) for one in library.story.contract]
    category = library.story.high_impact_category
    raised = {"tool_category": category, "autonomy_tier": HIGH_PRIVILEGE}
    return [request(session, STORY_READ, read), request(session, STORY_CONTRACT, needed, **raised)]


def request(
    session: PlannedSession, request_id: str, items: list[dict[str, Any]], **more: str
) -> dict[str, Any]:
    """A ProposedRetrieval by wire names."""
    agent = session.actions[0]["agent_id"]
    return {"request_id": request_id, "agent_id": agent, "session_id": session.id, "items": items} | more


def _acknowledging(session: PlannedSession) -> PlannedSession:
    """One of its actions says of which flags it knows."""
    actions = list(session.actions)
    flags = ["stale", "low_confidence", "provenance_unverified", "provenance_missing", "content_suspect"]
    actions[ACKNOWLEDGING] = actions[ACKNOWLEDGING] | {"acknowledged_flags": flags}
    return replace(session, actions=tuple(actions))
