"""The benchmarks' events: actions of the panel, each salted so that no cache helps, and their registry."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENT = "bench-agent"
PANELS = (
    Path(__file__).resolve().parents[3] / "shared" / "data" / "panel" / "actions.jsonl",
    Path(__file__).resolve().parents[2] / "config" / "demo" / "actions.jsonl",
)


def panel() -> list[dict[str, Any]]:
    """The `input` column of the action panel: the whole one if it is at hand, else the demo's share of it."""
    path = next(path for path in PANELS if path.is_file())
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)["input"] for line in lines]


def write_registry(path: Path) -> None:
    """A working installation's registry: one agent, every tool of the panel registered with tier T2.

    So most actions are allowed and counted, and the forbidden patterns block some.
    """
    tools = sorted({row["tool"][:256] for row in panel()})
    entries = [
        _entry("org", "bench", {"enforcement": "enforce", "forbidden_targets": []}),
        _entry("agent", AGENT, {"tenant_id": "bench", "tier": "T3", "tools": None}),
        *(_entry("tool", tool, {"tier": "T2", "action_type": None, "reversible": True}) for tool in tools),
    ]
    path.write_text(json.dumps({"entries": entries}), encoding="utf-8")


def events(count: int, sessions: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """`count` messages (key, value) spread evenly over `sessions`; ids and parameters carry fresh salt."""
    rows = panel()
    order = random.Random(seed)
    for number in range(count):
        row = order.choice(rows)
        salt = os.urandom(8).hex()
        session = f"session-{seed}-{number % sessions:06d}"
        action = {
            "action_id": f"{number:07d}-{salt}",
            "agent_id": AGENT,
            "session_id": session,
            "traceId": salt,
            "mode": "high_stakes",
            "toolName": row["tool"][:256],
            "parameters": {**(row["params"] or {}), "reference": salt},
            "rows_affected": 1,
        }
        yield session.encode(), json.dumps(action).encode()


def _entry(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": 1, "spec": spec}
