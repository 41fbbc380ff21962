"""Rows of the panels as sessions: what each session's agent does, wants remembered and reads.

Most sessions are one agent's rows in order. Growing sessions touch twice the rows with each action, up to the
bundle's threshold, until the session's total meets a limit; their last action alone is above it. One session
tells a story. The panels have no row estimates and no metadata of memories, and no items: all are made up.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.retrieval.provenance_check import write_assertion

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.trust.dsse import Signer
    from sluice.offline.panels import ActionRow

VERIFIED, ALTERED, MISSING = "verified", "altered", ""
STORY_READ, STORY_CONTRACT, STORY_AGAIN = "story-read", "story-contract", "story-contract-again"
ACKNOWLEDGING, SILENT = 1, 2
"""Which of the story's actions names the flags of the items that were read before it, and which does not."""
FLAGS = ["stale", "low_confidence", "provenance_unverified", "provenance_missing", "content_suspect"]
DAY_MS = 24 * 3600 * 1000
_SCORE_STEPS = 1000


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """`actions`, `writes`, `reads`: the fields of each ProposedAction, ProposedMemoryWrite and
    ProposedRetrieval by wire name, in their order."""

    id: str
    actions: tuple[dict[str, Any], ...]
    writes: tuple[dict[str, Any], ...] = ()
    reads: tuple[dict[str, Any], ...] = ()


def make_sessions(
    rows: Sequence[ActionRow], bundle: Bundle, recipe: SimpleNamespace, rng: random.Random
) -> list[PlannedSession]:
    """Every row in exactly one session: the growing ones first, then the story's, then the ordinary ones."""
    threshold, steps = bundle.irreversible_row_threshold, range(recipe.growth_actions - 1)
    growth = [*(min(threshold, recipe.growth_first_rows * 2**step) for step in steps), 2 * threshold]
    story, made, used = recipe.story, [], set()
    for text in (*recipe.growing, story):
        most = recipe.session_size // 2 if text is story else recipe.growth_actions
        chosen = [row for row in rows if bundle.classified(row.tool) in text.types][:most]
        counts = _draw_estimates(chosen, recipe, rng) if text is story else growth[-len(chosen) :]
        made.append(_make_session(text.session, text.mode, chosen, counts))
        used |= {row.id for row in chosen}
    return [*made, *_make_ordinary([row for row in rows if row.id not in used], recipe, rng)]


def _make_ordinary(
    rows: Sequence[ActionRow], recipe: SimpleNamespace, rng: random.Random
) -> Iterator[PlannedSession]:
    number = 0
    for agent, group in groupby(sorted(rows, key=lambda row: row.agent), key=lambda row: row.agent):
        own = list(group)
        count = math.ceil(len(own) / recipe.session_size)
        for index in range(count):
            number += 1
            chunk = own[index::count]
            yield _make_session(
                f"s{number:02}-{agent}",
                _choose_mode(number, recipe),
                chunk,
                _draw_estimates(chunk, recipe, rng),
            )


def _choose_mode(number: int, recipe: SimpleNamespace) -> str | None:
    if number % recipe.undeclared_every == 0:
        return None
    return "standard" if number % recipe.standard_every == 0 else "high_stakes"


def _draw_estimates(rows: Iterable[ActionRow], recipe: SimpleNamespace, rng: random.Random) -> list[int]:
    low, high = math.log(recipe.rows_least), math.log(recipe.rows_most)
    return [round(math.exp(rng.uniform(low, high))) for _ in rows]


def _make_session(
    session_id: str, mode: str | None, rows: Sequence[ActionRow], estimates: Sequence[int]
) -> PlannedSession:
    actions = []
    for row, rows_affected in zip(rows, estimates, strict=True):
        action = {
            "action_id": row.id,
            "agent_id": row.agent,
            "session_id": session_id,
            "toolName": row.tool,
            "parameters": row.parameters,
            "rows_affected": rows_affected,
        }
        details = {"tool_description": row.tool_description, "mode": mode}
        actions.append(action | {name: value for name, value in details.items() if value is not None})
    return PlannedSession(session_id, tuple(actions))


def add_memories(
    sessions: Sequence[PlannedSession],
    rows: Sequence[dict[str, Any]],
    config: SimpleNamespace,
    now: str,
) -> list[PlannedSession]:
    """The sessions, each ordinary one with its share of the rows, and the story's with its own memories.

    `now`: RFC 3339, the time at which all of it is said to have been known.
    """
    recipe, memories = config.recipe, config.memories
    apart = {text.session for text in (*recipe.growing, recipe.story)}
    ordinary = [session.id for session in sessions if session.id not in apart]
    shares = {name: rows[index :: len(ordinary)] for index, name in enumerate(ordinary)}
    made = []
    for session in sessions:
        if session.id == recipe.story.session:
            writes = list(_make_story_writes(session, memories, now))
        else:
            writes = [_make_panel_write(session, row, memories, now) for row in shares.get(session.id, ())]
        made.append(replace(session, writes=tuple(writes)))
    return made


def _make_panel_write(
    session: PlannedSession, row: dict[str, Any], memories: SimpleNamespace, now: str
) -> dict[str, Any]:
    fields = row["input"]
    kind = vars(memories.source_types).get(fields.get("source_type"), "external")
    write = _make_write(session, row["id"], fields["text"], now)
    return write | {"source": {"id": f"{row['file']}.{kind}", "type": kind}}


def _make_story_writes(
    session: PlannedSession, memories: SimpleNamespace, now: str
) -> Iterator[dict[str, Any]]:
    for memory in memories.story:
        fields = vars(memory)
        write = _make_write(session, memory.write_id, memory.content, now) | dict.fromkeys(
            fields.get("without", ())
        )
        yield write | {name: fields[name] for name in ("derived_from",) if name in fields}


def _make_write(session: PlannedSession, write_id: str, text: str, now: str) -> dict[str, Any]:
    digest = compute_digest(text)
    return {
        "write_id": write_id,
        "agent_id": session.actions[0]["agent_id"],
        "session_id": session.id,
        "content": text,
        "source": {"id": "finance-wiki", "type": "user"},
        "content_class": "public_reference",
        "timestamp": now,
        "confidence_score": 0.9,
        "provenance_uri": f"https://example.org/sources/{_shorten(digest)}",
        "provenance_hash": digest,
    }


def compute_digest(text: str) -> str:
    """ "sha256:" and the hex digest of its UTF-8."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def _shorten(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def find_source(readings: SimpleNamespace, content_class: str) -> SimpleNamespace:
    """Find the source of the class. Raises KeyError for a class without a source."""
    sources: dict[str, SimpleNamespace] = {text.content_class: text for text in readings.source}
    return sources[content_class]


def make_uri(readings: SimpleNamespace, content_class: str, text: str) -> str:
    """The reference under which the class's source has the text."""
    return f"{find_source(readings, content_class).uri}{_shorten(compute_digest(text))}"


@dataclass(frozen=True, slots=True)
class Reading:
    """Draws what sessions read at one moment; `feed` signs for the sources that sign."""

    readings: SimpleNamespace
    quality: QualityBundle
    feed: Signer
    now: str
    rng: random.Random

    def add_readings(
        self, sessions: Sequence[PlannedSession], recipe: SimpleNamespace
    ) -> list[PlannedSession]:
        """Each ordinary session with what it reads; one of the story's actions acknowledges flags. A growing
        session reads nothing, so that it meets its limit before a rule on untrusted content."""
        made, growing = [], {growing_session.session for growing_session in recipe.growing}
        for session in sessions:
            if session.id in growing:
                made.append(session)
            elif session.id == recipe.story.session:
                actions = list(session.actions)
                actions[ACKNOWLEDGING] = actions[ACKNOWLEDGING] | {"acknowledged_flags": FLAGS}
                made.append(replace(session, actions=tuple(actions)))
            else:
                made.append(replace(session, reads=tuple(self._make_ordinary(session))))
        return made

    def make_story(self, session: PlannedSession) -> list[dict[str, Any]]:
        """Make what the story's session reads before it acts: an item of every kind, and for a contract."""
        story = self.readings.story
        raised = {"tool_category": story.high_impact_category, "autonomy_tier": "high_privilege"}
        return [
            self._make_request(session, STORY_READ, story.read),
            self._make_request(session, STORY_CONTRACT, story.contract) | raised,
        ]

    def _make_ordinary(self, session: PlannedSession) -> Iterator[dict[str, Any]]:
        """One retrieval for every so many actions."""
        rule = self.readings.rule
        for number in range(-(-len(session.actions) // rule.actions_each)):
            texts = self.rng.sample(list(enumerate(self.readings.text)), self.rng.randint(1, rule.items_most))
            items = [self._draw(index, text) for index, text in texts]
            category = {"tool_category": self.rng.choice(rule.categories)}
            yield self._make_request(session, f"{session.id}-read-{number}", items) | category

    def _make_request(
        self, session: PlannedSession, request_id: str, items: Sequence[SimpleNamespace]
    ) -> dict[str, Any]:
        """A ProposedRetrieval by wire names."""
        who = {"agent_id": session.actions[0]["agent_id"], "session_id": session.id}
        return {"request_id": request_id, **who, "items": [self._make_item(item) for item in items]}

    def _draw(self, index: int, text: SimpleNamespace) -> SimpleNamespace:
        rule, of = self.readings.rule, text.content_class
        low, high = rule.stale_age if self._draw_chance(rule.stale) else rule.fresh_age
        age_ms = 1000 * (self.quality.file.ttl_by_class[of] or 0) * self.rng.uniform(low, high)
        least = self.quality.file.min_confidence_by_class[of]
        low, high = (0.0, least) if self._draw_chance(rule.unsure) else (least, 1.0)
        # Rounded down to a step, so that a score drawn below the minimum stays below it.
        score = max(low, int(self.rng.uniform(low, high) * _SCORE_STEPS) / _SCORE_STEPS)
        reference = MISSING
        if not self._draw_chance(rule.unsourced):
            reference = ALTERED if self._draw_chance(rule.altered) else VERIFIED
        return SimpleNamespace(
            item_id=f"{of}-{index:02}",
            content_class=of,
            text=text.text,
            age_days=age_ms / DAY_MS,
            score=score,
            reference=reference,
        )

    def _draw_chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _make_item(self, text: SimpleNamespace) -> dict[str, Any]:
        """A RetrievedItem by wire names."""
        made: dict[str, Any] = {
            "item_id": text.item_id,
            "content_class": text.content_class,
            "timestamp": rfc3339(read_milliseconds(self.now) - round(text.age_days * DAY_MS)),
            "confidence_score": text.score,
            "body": text.text,
        }
        if text.reference == MISSING:
            return made
        is_known = text.reference in (VERIFIED, ALTERED)
        uri = make_uri(self.readings, text.content_class, text.text) if is_known else text.reference
        made |= {"provenance_uri": uri, "provenance_hash": compute_digest(text.text)}
        if find_source(self.readings, text.content_class).by == "signed":
            asserted_at = made.pop("timestamp")
            signature = self.feed.sign(write_assertion(asserted_at, uri, made["provenance_hash"]))
            signed = {"asserted_at": asserted_at, "signature": base64.b64encode(signature).decode()}
            made |= {"freshness_assertion": signed}
        if text.reference == ALTERED:
            made["provenance_hash"] = compute_digest(f"{text.text} (as it is now)")
        return made
