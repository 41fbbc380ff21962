"""Rows of the memory panel as writes in the sessions of the actions, and one session's story.

The texts are the panel's. Their metadata is made up, since the panel has none: without it nothing would be
judged by its content.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.demo.inputs.sessions import MESSAGES, REPEATING, WRITES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from app.demo.inputs.sessions import Session

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
    sessions: Sequence[Session], rows: Sequence[dict[str, Any]], timestamp: str
) -> list[Session]:
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

    def told(name: str, text: str, **more: Any) -> dict[str, Any]:
        return _write(session_id, agent, name, text, timestamp) | more

    bare = told(
        "story-no-source", "The closing takes three days.", provenance_uri=None, confidence_score=None
    )
    derived = {"derived_from": [UNKNOWN_PARENT]}
    return [
        told("story-fact", "The finance team closes the books on the third working day of each month."),
        bare,
        told(HELD_TO_APPROVE, "Summary: the books of March were closed on 3 April.", **derived),
        told(HELD_TO_REJECT, "Someone said that the books of March were never closed.", **derived),
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
