"""The benchmarks' events: actions of the panel, each salted so that no cache of texts helps."""

from __future__ import annotations

import json
import os
import random
from functools import cache
from typing import TYPE_CHECKING, Any

from app.offline.panel import load_panel
from load.bench.panels import found
from load.bench.salt import salted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.offline.panel import Row

AGENT = "bench-agent"
MAX_ID = 256


@cache
def panel() -> tuple[Row, ...]:
    """The whole action panel if it is at hand, else the demo's share of it."""
    return tuple(load_panel(found("actions.jsonl")))


def events(count: int, sessions: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """`count` messages (key, value) of random rows, spread evenly over `sessions`."""
    return of_rows(panel(), count, sessions, seed)


def of_rows(rows: Sequence[Row], count: int, sessions: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """The same of these rows."""
    order = random.Random(seed)
    for number in range(count):
        session = f"session-{seed}-{number % sessions:06d}"
        yield session.encode(), json.dumps(action(order.choice(rows), number, session)).encode()


def action(row: Row, number: int, session: str) -> dict[str, Any]:
    """A row as a proposed action; its id and its texts carry fresh salt."""
    salt = f"q{os.urandom(3).hex()}"
    return {
        "action_id": f"{number:07d}-{salt}",
        "agent_id": AGENT,
        "session_id": session,
        "traceId": salt,
        "mode": "high_stakes",
        "toolName": row.tool[:MAX_ID],
        "parameters": salted(row.tool, row.parameters, salt),
        "rows_affected": 1,
    }
