"""The benchmarks' actions: rows of the panel, each salted so that no cache of texts helps.

As messages for a worker, and as the pipeline hands an action over to one stage, for measuring that stage
alone. The panels are the whole ones if they are at hand, else the demo's share of them.
"""

from __future__ import annotations

import json
import os
import random
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.core.actions.assessment import assess, read_seen
from sluice.core.state.session import SessionState, session_key
from sluice.core.state.session_view import SessionView
from sluice.detection.commands.languages import language_of
from sluice.offline.panels import load_panel
from sluice_topics.records import ProposedAction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.core.actions.stage import ActionContext, Stage
    from sluice.core.policy.policy import PointParts
    from sluice.offline.panels import ActionRow

PLACES = (
    Path(__file__).resolve().parents[4] / "shared" / "data" / "panel",
    Path(__file__).resolve().parents[3] / "config" / "demo",
)


def found(name: str) -> Path:
    """The file of this name in the first place that has it."""
    return next(place / name for place in PLACES if (place / name).is_file())


_TAIL = {"sql": " /* {} */", "shell": "\n# {}", "code": "\n# {}"}
_WORD = " {}"
_UNTYPED = "OTHER"


def salted(tool: str, parameters: dict[str, Any], salt: str) -> dict[str, Any]:
    """The parameters with the salt in each text, in a list in the last; where there is none, one is added.

    What is read as SQL or as shell gets the salt as a comment, as database drivers tag their queries; any
    other text gets one more word. The salt is short, so that nothing takes it for an encoded text.
    """
    done: dict[str, Any] = _salted(tool, "", parameters, salt)
    return {**parameters, "reference": salt} if done == parameters else done


def _salted(tool: str, key: str, value: Any, salt: str) -> Any:
    if isinstance(value, str):
        return value + _TAIL.get(language_of(tool, _UNTYPED, key), _WORD).format(salt)
    if isinstance(value, dict):
        return {name: _salted(tool, name, inner, salt) for name, inner in value.items()}
    if isinstance(value, list) and value:
        return [*value[:-1], _salted(tool, key, value[-1], salt)]
    return value


AGENT = "bench-agent"
MAX_ID = 256


@cache
def panel() -> tuple[ActionRow, ...]:
    """The whole action panel if it is at hand, else the demo's share of it."""
    return tuple(load_panel(found("actions.jsonl")))


def events(count: int, sessions: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """`count` messages (key, value) of random rows, spread evenly over `sessions`."""
    return of_rows(panel(), count, sessions, seed)


def of_rows(rows: Sequence[ActionRow], count: int, sessions: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """The same of these rows."""
    order = random.Random(seed)
    for number in range(count):
        session = f"session-{seed}-{number % sessions:06d}"
        yield session.encode(), json.dumps(action(order.choice(rows), number, session)).encode()


def action(row: ActionRow, number: int, session: str) -> dict[str, Any]:
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


AT_MS = 1_764_000_000_000
SESSION = "session"


def context(parts: PointParts, fields: dict[str, Any]) -> ActionContext:
    """Of an action with these fields, the first of its session."""
    proposed = ProposedAction.model_validate(fields)
    view = SessionView(SessionState(session_key(SESSION)), parts.limits, AT_MS)
    plan = parts.plan(proposed)
    return assess(plan, proposed, read_seen(view, plan.owner, proposed), AT_MS)


def of_panel(parts: PointParts, count: int) -> list[ActionContext]:
    """`count` rows of the panel in its order, over and over, each salted anew."""
    rows: Sequence[ActionRow] = panel()
    return [context(parts, action(rows[n % len(rows)], n, SESSION)) for n in range(count)]


def milliseconds(stage: Stage, contexts: Sequence[ActionContext]) -> list[float]:
    """The thread's CPU time of the stage on each."""
    times = []
    for one in contexts:
        began = time.thread_time_ns()
        stage.evaluate(one)
        times.append((time.thread_time_ns() - began) / 1e6)
    return times


def at(times: Sequence[float], share: float) -> float:
    """The percentile of some times."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
