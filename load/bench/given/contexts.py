"""An action in front of one stage, as the pipeline would hand it over; for measuring that stage alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from app.core.actions.assessment import assess
from app.core.state.draft import SessionDraft
from app.core.state.session import SessionState, session_key
from load.bench.given.events import action, panel
from topics.records import ProposedAction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.actions.stage import ActionContext, Stage
    from app.core.policy.point import PointParts
    from app.offline.panel import Row

AT_MS = 1_764_000_000_000
SESSION = "session"


def context(parts: PointParts, fields: dict[str, Any]) -> ActionContext:
    """Of an action with these fields, the first of its session."""
    proposed = ProposedAction.model_validate(fields)
    draft = SessionDraft(SessionState(session_key(SESSION)), parts.limits, AT_MS)
    return assess(parts, proposed, draft, AT_MS)


def of_panel(parts: PointParts, count: int) -> list[ActionContext]:
    """`count` rows of the panel in its order, over and over, each salted anew."""
    rows: Sequence[Row] = panel()
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
