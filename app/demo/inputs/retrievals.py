"""Retrievals in the sessions of the actions: drawn by the library's rule, and one session's story."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.demo.inputs.items import ALTERED, MISSING, VERIFIED, Facts
from app.demo.inputs.sessions import REPEATING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.demo.inputs.items import Store
    from app.demo.inputs.library import Library, Text
    from app.demo.inputs.sessions import Session

STORY_READ, STORY_CONTRACT, STORY_AGAIN = "story-read", "story-contract", "story-contract-again"
ACKNOWLEDGING, SILENT = 1, 2
"""Which of the story's actions names the flags of what was read before it, and which does not."""
HIGH_PRIVILEGE = "high_privilege"
_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """Draws what ordinary sessions read."""

    library: Library
    quality: QualityBundle
    store: Store
    rng: random.Random

    def of(self, session: Session) -> Iterator[dict[str, Any]]:
        """One retrieval for every so many actions."""
        rule = self.library.rule
        for number in range(-(-len(session.actions) // rule.actions_each)):
            texts = self.rng.sample(list(enumerate(self.library.text)), self.rng.randint(1, rule.items_most))
            items = [self.store.item(self._facts(place, text)) for place, text in texts]
            category = self.rng.choice(rule.categories)
            yield request(session, f"{session.id}-read-{number}", items, tool_category=category)

    def _facts(self, place: int, text: Text) -> Facts:
        return Facts(
            f"{text.content_class}-{place:02}",
            text.content_class,
            text.text,
            self._age_ms(text),
            self._score(text),
            self._reference(),
        )

    def _age_ms(self, text: Text) -> int:
        rule = self.library.rule
        ttl_s = self.quality.file.ttl_by_class[text.content_class] or 0
        low, high = rule.stale_age if self._happens(rule.stale) else rule.fresh_age
        return round(1000 * ttl_s * self.rng.uniform(low, high))

    def _score(self, text: Text) -> float:
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


def with_retrievals(sessions: Sequence[Session], reading: Reading) -> list[Session]:
    """The sessions, each ordinary one with what it reads; the story's has an action that acknowledges."""
    return [
        _acknowledging(session)
        if session.id == REPEATING
        else replace(session, reads=tuple(reading.of(session)))
        for session in sessions
    ]


def story(sessions: Sequence[Session], library: Library, store: Store) -> list[dict[str, Any]]:
    """What the story's session reads before it acts: one thing of every kind; and what a contract needs."""
    session = next(one for one in sessions if one.id == REPEATING)
    read = [store.told(one) for one in library.story.read]
    needed = [store.told(one) for one in library.story.contract]
    category = library.story.high_impact_category
    raised = {"tool_category": category, "autonomy_tier": HIGH_PRIVILEGE}
    return [request(session, STORY_READ, read), request(session, STORY_CONTRACT, needed, **raised)]


def request(session: Session, request_id: str, items: list[dict[str, Any]], **more: str) -> dict[str, Any]:
    """A ProposedRetrieval by wire names."""
    agent = session.actions[0]["agent_id"]
    return {"request_id": request_id, "agent_id": agent, "session_id": session.id, "items": items} | more


def _acknowledging(session: Session) -> Session:
    """One of its actions says of which flags it knows."""
    actions = list(session.actions)
    flags = ["stale", "low_confidence", "provenance_unverified", "provenance_missing", "content_suspect"]
    actions[ACKNOWLEDGING] = actions[ACKNOWLEDGING] | {"acknowledged_flags": flags}
    return replace(session, actions=tuple(actions))
