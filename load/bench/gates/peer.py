"""The peer: the panel's actions through agent-os-kernel's SemanticPolicyEngine and through ours, one process.

The peer classifies a tool's name and parameters that are objects already; Gate 1 alone does the same work,
the pure pipeline all of a decision. Both rates by the process's CPU time; recall and false positives of both
on the panel's rows as they are, as `sluice evaluate` computes them. The peer denies with its own defaults.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_os.semantic_policy import PolicyDenied, SemanticPolicyConfig, SemanticPolicyEngine

from app.core.actions.fast_reject import FastReject
from app.core.actions.stages import shipped_stages
from app.core.foundation.arrival import Arrival
from app.offline.action_evaluation import JudgedAction, judged
from app.offline.scores import macro, scores
from load.bench import measurement
from load.bench.given import bench_policy
from load.bench.given.actions import AT_MS, events, of_panel, panel
from load.bench.given.pure import Pipeline
from load.bench.measurement import Measurement, reported, rounds_of
from topics.catalog import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.offline.panels import ActionRow
    from load.bench.measurement import Extent

COUNT = 10_000
CHUNK = 256
SESSIONS = 2_000
PEER = "SemanticPolicyEngine"


@dataclass(slots=True)
class Compared:
    """Rates in actions a second; shares of the panel, each source counting once, none where it has no row."""

    peer_rate: float
    gate1_rate: float
    pipeline_rate: float
    peer: dict[str, float | None]
    ours: dict[str, float | None]


def measure(count: int) -> Compared:
    """One round, in a fresh process."""
    engine, parts, stage = (
        SemanticPolicyEngine(config=SemanticPolicyConfig()),
        bench_policy.parts(),
        FastReject(),
    )
    rows = of_panel(parts, count)
    pipeline, chunks = Pipeline(bench_policy.point()), _chunks(count)
    measurement.settle()
    return Compared(
        _rate(count, lambda: [_denied(engine, one.action.tool_name, one.action.parameters) for one in rows]),
        _rate(count, lambda: [stage.evaluate(one) for one in rows]),
        _rate(count, lambda: [pipeline.take(chunk) for chunk in chunks]),
        macro(scores(_peer_judged(engine, panel())).values()),
        macro(scores(_judged()).values()),
    )


def _chunks(count: int) -> list[list[Arrival]]:
    messages = enumerate(events(count, SESSIONS, seed=5))
    arrivals = [Arrival(ACTIONS, 0, offset, AT_MS, key, value) for offset, (key, value) in messages]
    return [arrivals[start : start + CHUNK] for start in range(0, count, CHUNK)]


def _rate(count: int, step: Callable[[], object]) -> float:
    began = time.process_time()
    step()
    return count / (time.process_time() - began)


def _denied(engine: Any, tool: str, parameters: dict[str, Any]) -> bool:
    try:
        engine.check(tool, parameters)
    except PolicyDenied:
        return True
    return False


def _peer_judged(engine: Any, rows: Iterable[ActionRow]) -> Iterable[JudgedAction]:
    for row in rows:
        denied = _denied(engine, row.tool, row.parameters)
        yield JudgedAction(row, "BLOCK" if denied else "ALLOW", PEER if denied else None)


def _judged() -> Iterable[JudgedAction]:
    under = bench_policy.policy(rules=[])
    return judged(panel(), under.default, shipped_stages(), AT_MS)


def figures(extent: Extent) -> list[Measurement]:
    """Rates and shares of both."""
    every = rounds_of(measure, extent, COUNT)
    return [
        reported(f"{PEER}, classifying alone", [one.peer_rate for one in every], "actions/s"),
        reported("Gate 1 alone", [one.gate1_rate for one in every], "actions/s"),
        reported(
            "pure pipeline, bytes to chained verdict", [one.pipeline_rate for one in every], "actions/s"
        ),
        *_shares(PEER, [one.peer for one in every]),
        *_shares("ours", [one.ours for one in every]),
    ]


def _shares(whose: str, every: list[dict[str, float | None]]) -> list[Measurement]:
    names = {"recall": "recall", "false_positive_rate": "false positive rate"}
    return [
        reported(f"{shown}, {whose}", [one[name] or 0.0 for one in every], "macro")
        for name, shown in names.items()
    ]
