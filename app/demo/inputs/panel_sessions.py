"""Rows of the panels as the actions and memory writes of sessions.

Most sessions are one agent's rows in order. Two grow: each action touches twice the rows of the one before,
up to the bundle's threshold, until the session's total meets a limit; their last action alone is above it.
One has a story of its own. The panels have no row estimates and no metadata of memories: both are made up,
and without metadata no memory would be judged by its content.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from app.core.policy.bundles import Bundle
    from app.demo.inputs.demo_config import Recipe
    from app.offline.panels import ActionRow

MESSAGES = "growing-messages"
WRITES = "growing-writes"
REPEATING = "repeating"
_MESSAGE_TYPES = frozenset({"MESSAGE"})
_WRITE_TYPES = frozenset({"PAYMENT", "FILE_DELETE", "DATABASE_WRITE"})
_REPEATING_TYPES = frozenset({"DATABASE_READ"})


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """`actions`, `writes`, `reads`: the fields of each ProposedAction, ProposedMemoryWrite and
    ProposedRetrieval by wire name, as they come in turn."""

    id: str
    actions: tuple[dict[str, Any], ...]
    writes: tuple[dict[str, Any], ...] = ()
    reads: tuple[dict[str, Any], ...] = ()


def make_sessions(
    rows: Sequence[ActionRow], bundle: Bundle, recipe: Recipe, rng: random.Random
) -> list[PlannedSession]:
    """Every row in exactly one session, the three with a story first."""
    messages = _of_type(rows, bundle, _MESSAGE_TYPES)[: recipe.growth_actions]
    writes = _of_type(rows, bundle, _WRITE_TYPES)[: recipe.growth_actions]
    repeating = _of_type(rows, bundle, _REPEATING_TYPES)[: recipe.session_size // 2]
    used = {row.id for row in (*messages, *writes, *repeating)}
    growth = list(_growth(recipe, bundle.irreversible_row_threshold))
    return [
        _session(MESSAGES, "high_stakes", messages, growth[-len(messages) :]),
        # Standard is advisory: its caller goes on whatever the verdict, so the total grows through a denial.
        _session(WRITES, "standard", writes, growth[-len(writes) :]),
        _session(REPEATING, "high_stakes", repeating, _estimates(repeating, recipe, rng)),
        *_ordinary([row for row in rows if row.id not in used], recipe, rng),
    ]


def _of_type(rows: Sequence[ActionRow], bundle: Bundle, types: frozenset[str]) -> list[ActionRow]:
    return [row for row in rows if bundle.classified(row.tool) in types]


def _growth(recipe: Recipe, threshold: int) -> Iterator[int]:
    for step in range(recipe.growth_actions - 1):
        yield min(threshold, recipe.growth_first_rows * 2**step)
    yield 2 * threshold


def _ordinary(rows: Sequence[ActionRow], recipe: Recipe, rng: random.Random) -> Iterator[PlannedSession]:
    number = 0
    for agent, group in groupby(sorted(rows, key=lambda row: row.agent), key=lambda row: row.agent):
        for chunk in _chunks(list(group), recipe.session_size):
            number += 1
            estimates = _estimates(chunk, recipe, rng)
            yield _session(f"s{number:02}-{agent}", _mode(number, recipe), chunk, estimates)


def _chunks(rows: list[ActionRow], size: int) -> Iterator[list[ActionRow]]:
    count = math.ceil(len(rows) / size)
    for place in range(count):
        yield rows[place::count]


def _mode(number: int, recipe: Recipe) -> str | None:
    if number % recipe.undeclared_every == 0:
        return None
    return "standard" if number % recipe.standard_every == 0 else "high_stakes"


def _estimates(rows: Iterable[ActionRow], recipe: Recipe, rng: random.Random) -> list[int]:
    low, high = math.log(recipe.rows_least), math.log(recipe.rows_most)
    return [round(math.exp(rng.uniform(low, high))) for _ in rows]


def _session(
    session_id: str, mode: str | None, rows: Sequence[ActionRow], estimates: Sequence[int]
) -> PlannedSession:
    pairs = zip(rows, estimates, strict=True)
    return PlannedSession(session_id, tuple(_action(session_id, mode, row, count) for row, count in pairs))


def _action(session_id: str, mode: str | None, row: ActionRow, rows_affected: int) -> dict[str, Any]:
    action = {
        "action_id": row.id,
        "agent_id": row.agent,
        "session_id": session_id,
        "toolName": row.tool,
        "parameters": row.parameters,
        "rows_affected": rows_affected,
    }
    given = {"tool_description": row.tool_description, "mode": mode}
    return action | {name: value for name, value in given.items() if value is not None}


SOURCE_TYPES = {
    "user": "user",
    "user_input": "user",
    "user_message": "user",
    "ticket": "user",
    "agent_io": "agent",
    "agent_output": "agent",
    "memory": "agent",
    "tool_args": "plugin",
    "tool_name": "plugin",
    "tool_response": "plugin",
}
"""What the panel says of a text's origin, in the gate's words; anything else came from outside."""
STORIES = frozenset({MESSAGES, WRITES, REPEATING})
UNKNOWN_PARENT = "memory:gate.memory.writes.proposed:0:999999999"
HELD_TO_APPROVE, HELD_TO_REJECT = "story-summary", "story-rumour"


def load_writes(path: Path) -> list[dict[str, Any]]:
    """The panel's rows, by its own field names."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def with_memories(
    sessions: Sequence[PlannedSession], rows: Sequence[dict[str, Any]], timestamp: str
) -> list[PlannedSession]:
    """The sessions, each ordinary one with its share of the rows, and one with a story of its own.

    `timestamp`: RFC 3339, when all of it is said to have been known.
    """
    ordinary = [session for session in sessions if session.id not in STORIES]
    shares = {session.id: rows[place :: len(ordinary)] for place, session in enumerate(ordinary)}
    made = []
    for session in sessions:
        agent = session.actions[0]["agent_id"]
        if session.id == REPEATING:
            writes = _story(session.id, agent, timestamp)
        else:
            writes = [_of_row(session.id, agent, row, timestamp) for row in shares.get(session.id, ())]
        made.append(replace(session, writes=tuple(writes)))
    return made


def _of_row(session_id: str, agent: str, row: dict[str, Any], timestamp: str) -> dict[str, Any]:
    given = row["input"]
    kind = SOURCE_TYPES.get(given.get("source_type"), "external")
    return _write(session_id, agent, row["id"], given["text"], timestamp) | {
        "source": {"id": f"{row['file']}.{kind}", "type": kind}
    }


def _story(session_id: str, agent: str, timestamp: str) -> list[dict[str, Any]]:
    """Allowed; rejected for its metadata; held twice, since nobody knows what they were derived from."""

    def write(name: str, text: str, **more: Any) -> dict[str, Any]:
        return _write(session_id, agent, name, text, timestamp) | more

    bare = write(
        "story-no-source", "The closing takes three days.", provenance_uri=None, confidence_score=None
    )
    derived = {"derived_from": [UNKNOWN_PARENT]}
    return [
        write("story-fact", "The finance team closes the books on the third working day of each month."),
        bare,
        write(HELD_TO_APPROVE, "Summary: the books of March were closed on 3 April.", **derived),
        write(HELD_TO_REJECT, "Someone said that the books of March were never closed.", **derived),
    ]


def _write(session_id: str, agent: str, write_id: str, text: str, timestamp: str) -> dict[str, Any]:
    return {
        "write_id": write_id,
        "agent_id": agent,
        "session_id": session_id,
        "content": text,
        "source": {"id": "finance-wiki", "type": "user"},
        "content_class": "public_reference",
        "timestamp": timestamp,
        "confidence_score": 0.9,
        "provenance_uri": f"https://example.org/sources/{sha256(text.encode()).hexdigest()[:12]}",
        "provenance_hash": f"sha256:{sha256(text.encode()).hexdigest()}",
    }
