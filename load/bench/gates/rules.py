"""Stage 1 with 200 rules, by the thread's CPU time: over the panel, and on the heaviest parameters."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.core.actions.rules import Rules
from load.bench import fresh
from load.bench.figures import Figure, at_most, reported
from load.bench.given import many_rules, policy
from load.bench.given.contexts import SESSION, at, context, milliseconds, of_panel
from load.bench.given.events import AGENT

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext
    from app.core.policy.point import PointParts
    from load.bench.figures import Extent

PANEL = 3_000
EACH = 200
RULES_MS = 8


@dataclass(slots=True)
class Times:
    """Milliseconds; `heaviest`: the 99th percentile for each shape of parameters."""

    p50: float
    p99: float
    highest: float
    heaviest: dict[str, float]


def measure(panel_count: int, each: int) -> Times:
    """One round, in a fresh process."""
    parts, stage = policy.parts(many_rules.rules()), Rules()
    rows = of_panel(parts, panel_count)
    fresh.settle()
    over_panel = milliseconds(stage, rows)
    heaviest = {
        name: at(milliseconds(stage, [_action(parts, parameters) for _ in range(each)]), 0.99)
        for name, parameters in many_rules.heaviest()
    }
    return Times(at(over_panel, 0.5), at(over_panel, 0.99), max(over_panel), heaviest)


def _action(parts: PointParts, parameters: dict[str, Any]) -> ActionContext:
    fields = {"action_id": os.urandom(4).hex(), "agent_id": AGENT, "session_id": SESSION, "toolName": "tool"}
    return context(parts, {**fields, "parameters": parameters})


def figures(extent: Extent) -> list[Figure]:
    """Panel, then every heaviest shape."""
    counts = (extent.of(PANEL), extent.of(EACH))
    every = [Times(**fresh.in_fresh_process(__name__, *counts)) for _ in range(extent.rounds)]
    return [
        reported("200 rules over the panel, p50", [one.p50 for one in every], "ms"),
        at_most("200 rules over the panel, p99", [one.p99 for one in every], RULES_MS, "ms"),
        reported("200 rules over the panel, highest", [one.highest for one in every], "ms"),
        *(
            at_most(f"200 rules, {name}, p99", [one.heaviest[name] for one in every], RULES_MS, "ms")
            for name in every[0].heaviest
        ),
    ]


if __name__ == "__main__":
    fresh.tell(measure(*map(int, sys.argv[1:])))
