"""Stage 1 with 200 rules, by the thread's CPU time: over the panel, and on the heaviest parameters.

The rules are of the kinds that policies are made of; the parameters make them work hardest.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.core.actions.rules import Rules
from app.core.cel.values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS, MAX_TEXT
from load.bench import measurement
from load.bench.given import bench_policy
from load.bench.given.actions import AGENT, SESSION, at, context, milliseconds, of_panel
from load.bench.given.bench_policy import RULES
from load.bench.measurement import Measurement, at_most, reported, rounds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.actions.stage import ActionContext
    from app.core.policy.policy import PointParts
    from load.bench.measurement import Extent

COUNT = 200
_TEMPLATES = (
    "action.rows <= {limit}",
    "action.type != 'PAYMENT' || session.aggregateRowsAffected < {limit}",
    "!(action.tool.startsWith('internal.{n}') && action.mode != 'high_stakes')",
    "!has(action.parameters.region_{n}) || action.parameters.region_{n} in ['eu', 'us', 'ap{n}']",
    "agent.tenant == 'bench' || session.aggregateActionCount < {limit}",
    "!action.tool.matches('^admin[._-]{n}[0-9]*$')",
    "!has(action.parameters.items) || !action.parameters.items.exists(item, item == 'forbidden-{n}')",
    "action.parameters.all(name, name != 'override_{n}')",
    "!has(action.parameters.text) || !action.parameters.text.contains('project-{n}')",
    "now < timestamp('2030-01-{day:02d}T00:00:00Z') || action.reversible == true",
)


def rules() -> list[dict[str, Any]]:
    """The eight, and templates with other constants in each."""
    few: list[dict[str, Any]] = json.loads(RULES.read_bytes())
    return few + [_rule(number) for number in range(COUNT - len(few))]


def _rule(number: int) -> dict[str, Any]:
    source = _TEMPLATES[number % len(_TEMPLATES)]
    condition = source.format(n=number, limit=1_000_000 + number, day=number % 28 + 1)
    return {"id": f"rule-{number}", "type": "invariant", "reason": "does not hold", "condition": condition}


def heaviest_parameters() -> Iterator[tuple[str, dict[str, Any]]]:
    """Parameters at the bounds of what rules are shown, and just past them, by name."""
    text = "project " * (MAX_TEXT // 8)
    yield "longest text", {"text": text}
    yield (
        "texts up to the bound on all",
        {"text": text, **{f"t{n}": text for n in range(MAX_ALL_TEXT // MAX_TEXT - 1)}},
    )
    yield "longest list", {"items": [f"item-{n}" for n in range(MAX_ITEMS)]}
    yield "longest map", {f"name_{n}": n for n in range(MAX_ITEMS)}
    yield "longest list of long texts", {"items": ["forbidden-" + "x" * 400] * MAX_ITEMS}
    lists = MAX_ALL_ITEMS // MAX_ITEMS - 1
    yield "values up to the bound on all", {f"list_{n}": list(range(MAX_ITEMS)) for n in range(lists)}
    yield "lists of maps", {"items": [{"a": n, "b": [n], "c": {"d": n}} for n in range(MAX_ITEMS - 1)]}
    yield "past every bound", {"text": text * 2, "items": list(range(MAX_ITEMS + 1)), "huge": 2**200}


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
    parts, stage = bench_policy.parts(rules()), Rules()
    rows = of_panel(parts, panel_count)
    measurement.settle()
    over_panel = milliseconds(stage, rows)
    heaviest = {
        name: at(milliseconds(stage, [_action(parts, parameters) for _ in range(each)]), 0.99)
        for name, parameters in heaviest_parameters()
    }
    return Times(at(over_panel, 0.5), at(over_panel, 0.99), max(over_panel), heaviest)


def _action(parts: PointParts, parameters: dict[str, Any]) -> ActionContext:
    fields = {"action_id": os.urandom(4).hex(), "agent_id": AGENT, "session_id": SESSION, "toolName": "tool"}
    return context(parts, {**fields, "parameters": parameters})


def figures(extent: Extent) -> list[Measurement]:
    """Panel, then every heaviest shape."""
    every = rounds_of(measure, extent, PANEL, EACH)
    return [
        reported("200 rules over the panel, p50", [one.p50 for one in every], "ms"),
        at_most("200 rules over the panel, p99", [one.p99 for one in every], RULES_MS, "ms"),
        reported("200 rules over the panel, highest", [one.highest for one in every], "ms"),
        *(
            at_most(f"200 rules, {name}, p99", [one.heaviest[name] for one in every], RULES_MS, "ms")
            for name in every[0].heaviest
        ),
    ]
