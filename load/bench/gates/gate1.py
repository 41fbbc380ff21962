"""Gate 1 alone and 200 rules alone, by the thread's CPU time: over the panel, and on hard parameters.

The 64 KB are ASCII in the shapes that cost the most: all of an action that Gate 1 has to look at. Fuzzed are
texts of the panel mutated, marks repeated to stall a parser, deep layers; seeded, so that every round and
every release reads the same ones. The marks are data, in gate1.json.

The rules are of the kinds that policies are made of; the parameters make them work hardest.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from load.bench import measurement
from load.bench.fixtures import bench_policy
from load.bench.fixtures.action_events import (
    AGENT,
    SESSION,
    compute_percentile,
    context,
    make_contexts,
    milliseconds,
    panel,
)
from load.bench.fixtures.bench_policy import RULES
from load.bench.fixtures.hard_texts import Mutation, marks_in
from load.bench.measurement import judge, report, require_at_most, rounds_of
from sluice.core.actions.fast_reject import FastReject
from sluice.core.actions.rules import Rules
from sluice.core.cel.cel_values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS, MAX_TEXT
from sluice.detection.commands.leaves import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from load.bench.measurement import Extent, Figures, Judge, Measurement
    from sluice.core.actions.stage import ActionContext
    from sluice.core.policy.policy import PointParts

BYTES = 64 * 1024
_SENTENCE = "the account of every customer was moved to another region before the report was due again"
_WORDS = _SENTENCE.split()
_SQL = "SELECT name, total FROM orders WHERE region = 'north' AND total > 10 ORDER BY name;\n"
_SHELL = "tar czf backup.tgz /var/lib/app && cp backup.tgz /mnt/store; ls -l | grep tgz\n"
_PATH = "../reports/./2025//q3/summary.txt "
_URL = "see http://reports.example.com:8080/a/b?c=d for it, "
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class Wide(NamedTuple):
    """A shape's name, and an action of it."""

    shape: str
    tool: str
    parameters: dict[str, Any]


def wide(salt: int) -> Iterator[Wide]:
    """Every shape, with other content for every salt."""
    chance = random.Random(salt)
    words = [f"{chance.choice(_WORDS)}" for _ in range(BYTES // 5)]
    text = f"{salt} {' '.join(words)}"[:BYTES]
    yield Wide("one text", "archive", {"value": text})
    yield Wide("one message", "send", {"message": text})
    yield Wide("1000 texts", "archive", {"values": [text[n * 60 : n * 60 + 60] for n in range(1000)]})
    yield Wide("10000 words", "archive", {"values": text.split()[:10_000]})
    yield Wide("many keys", "archive", {f"{word}_{n}": word for n, word in enumerate(text.split()[:3_500])})
    yield Wide("nesting", "archive", _nest(text))
    yield Wide("SQL", "sql", {"query": _fill(_SQL, salt)})
    yield Wide("shell", "bash", {"command": _fill(_SHELL, salt)})
    yield Wide("100 SQL texts", "sql", {"statements": [_SQL * 7 + str(salt + n) for n in range(100)]})
    yield Wide("100 commands", "bash", {"commands": [_SHELL * 8 + str(salt + n) for n in range(100)]})
    yield Wide("base64", "archive", {"value": "".join(chance.choices(_BASE64, k=BYTES))})
    yield Wide(
        "1000 base64 texts",
        "archive",
        {"values": ["".join(chance.choices(_BASE64, k=60)) for _ in range(1000)]},
    )
    yield Wide("paths", "archive", {"value": _fill(_PATH, salt)})
    yield Wide("URLs", "archive", {"value": _fill(_URL, salt)})


def _fill(unit: str, salt: int) -> str:
    return f"{unit * (BYTES // len(unit) - 1)}{salt}"


def _nest(text: str) -> dict[str, Any]:
    """Chains of maps as deep as a record may have them, as many as fit."""
    chains = [text[n * 1100 : n * 1100 + 600] for n in range(60)]
    for depth in range(50):
        chains = [{f"k{depth}": chain} for chain in chains]  # type: ignore[misc]
    return {"value": chains}


SEED = 1981
LONGEST = 65_536
"""Characters of a fuzzed text: as many as a record of 64 KB can hold."""
_MUTATED = 4096
_DEPTH = 40
_SIZES = (16, 64, 256, 1024, 2048, 4000, 4096, 8192, 16_384, LONGEST)
_KNOWN = marks_in(Path(__file__).with_suffix(".json"))


class Fuzzed(NamedTuple):
    """Parameters for a tool."""

    tool: str
    parameters: dict[str, object]


def fuzz(count: int) -> Iterator[Fuzzed]:
    """`count` inputs, a third of each sort."""
    chance = random.Random(SEED)
    texts = [leaf.text for row in panel() for leaf in leaves(row.parameters)]
    mutation = Mutation(chance, _KNOWN["marks"], _SIZES, longest=_MUTATED, depth=_DEPTH)
    sorts: tuple[Callable[[], str], ...] = (
        lambda: mutation.mutate(chance.choice(texts)),
        mutation.repeat,
        lambda: mutation.nest(chance.choice(texts)),
    )
    for number in range(count):
        tool, key = chance.choice(_KNOWN["places"])
        yield Fuzzed(tool, {key: sorts[number % len(sorts)]()[:LONGEST]})


PANEL, FUZZED, WIDE_SALTS, SHOWN = 10_000, 10_000, 20, 60
WIDTHS = [action.shape for action in wide(0)]
GATE1: dict[str, Judge] = {
    "Gate 1 over the panel, p50": partial(report, unit="ms"),
    "Gate 1 over the panel, p99": partial(require_at_most, goal=1, unit="ms"),
    "Gate 1 over the panel, highest": partial(report, unit="ms"),
    **{f"64 KB: {shape}": partial(require_at_most, goal=1, unit="ms") for shape in WIDTHS},
    "fuzzed inputs, p50": partial(report, unit="ms"),
    "fuzzed inputs, p99": partial(report, unit="ms"),
    "fuzzed inputs, highest": partial(require_at_most, goal=25, unit="ms"),
}


def measure(panel_count: int, fuzzed_count: int) -> Figures:
    """One round, in a fresh process; the beginning of the worst fuzzed input goes to standard error."""
    parts, stage = bench_policy.parts(), FastReject()
    rows = make_contexts(parts, panel_count)
    measurement.settle()
    percentiles_by_name = percentiles("Gate 1 over the panel", milliseconds(stage, rows))
    times: dict[str, list[float]] = defaultdict(list)
    for salt in range(WIDE_SALTS):
        for action in wide(salt):
            times[action.shape] += milliseconds(stage, [_action(parts, action.tool, action.parameters)])
    percentiles_by_name |= {
        f"64 KB: {shape}": compute_percentile(every, 0.5) for shape, every in times.items()
    }
    inputs = list(fuzz(fuzzed_count))
    over_fuzzed = milliseconds(stage, [_action(parts, fuzzed.tool, fuzzed.parameters) for fuzzed in inputs])
    worst = inputs[over_fuzzed.index(max(over_fuzzed))]
    print(f"worst: {worst.tool} {worst.parameters}"[:SHOWN], file=sys.stderr)
    return percentiles_by_name | percentiles("fuzzed inputs", over_fuzzed)


def percentiles(name: str, times: Sequence[float]) -> Figures:
    """The middle, the 99th percentile and the highest of some times."""
    return {
        f"{name}, p50": compute_percentile(times, 0.5),
        f"{name}, p99": compute_percentile(times, 0.99),
        f"{name}, highest": max(times),
    }


def _action(parts: PointParts, tool: str, parameters: dict[str, Any]) -> ActionContext:
    fields = {"agent_id": AGENT, "session_id": SESSION, "toolName": tool, "rows_affected": 1}
    return context(parts, {"action_id": os.urandom(4).hex(), **fields, "parameters": parameters})


def figures(extent: Extent) -> list[Measurement]:
    """Panel, every shape of 64 KB, fuzzed inputs."""
    return judge(rounds_of(measure, extent, PANEL, FUZZED), GATE1)


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


RULES_PANEL, EACH = 3_000, 200
HEAVIEST = [name for name, _ in heaviest_parameters()]
MANY: dict[str, Judge] = {
    "200 rules over the panel, p50": partial(report, unit="ms"),
    "200 rules over the panel, p99": partial(require_at_most, goal=8, unit="ms"),
    "200 rules over the panel, highest": partial(report, unit="ms"),
    **{f"200 rules, {name}, p99": partial(require_at_most, goal=8, unit="ms") for name in HEAVIEST},
}


def measure_rules(panel_count: int, each: int) -> Figures:
    """One round, in a fresh process."""
    parts, stage = bench_policy.parts(rules()), Rules()
    rows = make_contexts(parts, panel_count)
    measurement.settle()
    percentiles_by_name = percentiles("200 rules over the panel", milliseconds(stage, rows))
    for name, parameters in heaviest_parameters():
        times = milliseconds(stage, [_action(parts, "tool", parameters) for _ in range(each)])
        percentiles_by_name[f"200 rules, {name}, p99"] = compute_percentile(times, 0.99)
    return percentiles_by_name


def rules_figures(extent: Extent) -> list[Measurement]:
    """Panel, then every heaviest shape."""
    return judge(rounds_of(measure_rules, extent, RULES_PANEL, EACH), MANY)
