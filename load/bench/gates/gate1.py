"""Gate 1 alone, by the thread's CPU time: over the panel, on 64 KB of parameters, on fuzzed inputs."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.core.actions.fast_reject import FastReject
from load.bench import fresh
from load.bench.figures import Figure, at_most, reported
from load.bench.given import policy
from load.bench.given.contexts import SESSION, at, context, milliseconds, of_panel
from load.bench.given.events import AGENT
from load.bench.given.fuzz import fuzzed
from load.bench.given.wide import wide

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext
    from app.core.policy.point import PointParts
    from load.bench.figures import Extent

PANEL = 10_000
FUZZED = 10_000
WIDE = 20
PANEL_MS = 1
WIDE_MS = 1
FUZZED_MS = 25
SHOWN = 60


@dataclass(slots=True)
class Times:
    """Milliseconds. `wide`: the median of each shape's; `worst`: the beginning of the worst fuzzed input."""

    p50: float
    p99: float
    highest: float
    wide: dict[str, float]
    fuzzed_p50: float
    fuzzed_p99: float
    fuzzed_highest: float
    worst: str


def measure(panel_count: int, fuzzed_count: int) -> Times:
    """One round, in a fresh process."""
    parts, stage = policy.parts(), FastReject()
    rows = of_panel(parts, panel_count)
    fresh.settle()
    over_panel = milliseconds(stage, rows)
    by_shape = _wide(parts, stage)
    inputs = list(fuzzed(fuzzed_count))
    over_fuzzed = milliseconds(stage, [_action(parts, one.tool, one.parameters) for one in inputs])
    worst = inputs[over_fuzzed.index(max(over_fuzzed))]
    return Times(
        *(at(over_panel, 0.5), at(over_panel, 0.99), max(over_panel)),
        by_shape,
        *(at(over_fuzzed, 0.5), at(over_fuzzed, 0.99), max(over_fuzzed)),
        f"{worst.tool} {worst.parameters}"[:SHOWN],
    )


def _wide(parts: PointParts, stage: FastReject) -> dict[str, float]:
    times: dict[str, list[float]] = defaultdict(list)
    for salt in range(WIDE):
        for one in wide(salt):
            times[one.shape] += milliseconds(stage, [_action(parts, one.tool, one.parameters)])
    return {shape: at(every, 0.5) for shape, every in times.items()}


def _action(parts: PointParts, tool: str, parameters: dict[str, object]) -> ActionContext:
    fields = {"action_id": "a", "agent_id": AGENT, "session_id": SESSION, "toolName": tool}
    return context(parts, {**fields, "parameters": parameters, "rows_affected": 1})


def rounds(extent: Extent) -> list[Times]:
    """Every round's times."""
    counts = (extent.of(PANEL), extent.of(FUZZED))
    return [Times(**fresh.in_fresh_process(__name__, *counts)) for _ in range(extent.rounds)]


def figures(extent: Extent) -> list[Figure]:
    """Panel, every shape of 64 KB, fuzzed inputs."""
    every = rounds(extent)
    slowest = max(every, key=lambda one: one.fuzzed_highest)
    return [
        reported("Gate 1 over the panel, p50", [one.p50 for one in every], "ms"),
        at_most("Gate 1 over the panel, p99", [one.p99 for one in every], PANEL_MS, "ms"),
        reported("Gate 1 over the panel, highest", [one.highest for one in every], "ms"),
        *(
            at_most(f"64 KB: {shape}", [one.wide[shape] for one in every], WIDE_MS, "ms")
            for shape in every[0].wide
        ),
        reported("fuzzed inputs, p50", [one.fuzzed_p50 for one in every], "ms"),
        reported("fuzzed inputs, p99", [one.fuzzed_p99 for one in every], "ms"),
        at_most(
            f"fuzzed inputs, highest ({slowest.worst})",
            [one.fuzzed_highest for one in every],
            FUZZED_MS,
            "ms",
        ),
    ]


if __name__ == "__main__":
    fresh.tell(measure(*map(int, sys.argv[1:])))
