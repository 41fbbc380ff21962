"""Gate 1 alone, by the thread's CPU time: over the panel, on 64 KB of parameters, on fuzzed inputs.

The 64 KB are ASCII in the shapes that cost the most: all of an action that Gate 1 has to look at. Fuzzed are
texts of the panel mutated, marks repeated to stall a parser, deep layers; seeded, so that every round and
every release reads the same ones. The marks are data, in gate1.json.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.actions.fast_reject import FastReject
from app.core.commands.leaves import leaves
from load.bench import measurement
from load.bench.given import bench_policy
from load.bench.given.actions import AGENT, SESSION, at, context, milliseconds, of_panel, panel
from load.bench.given.mutation import Mutation, marks_in
from load.bench.measurement import Measurement, at_most, reported, rounds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.core.actions.stage import ActionContext
    from app.core.policy.policy import PointParts
    from load.bench.measurement import Extent

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
    yield Wide("nesting", "archive", _nested(text))
    yield Wide("SQL", "sql", {"query": _filled(_SQL, salt)})
    yield Wide("shell", "bash", {"command": _filled(_SHELL, salt)})
    yield Wide("100 SQL texts", "sql", {"statements": [_SQL * 7 + str(salt + n) for n in range(100)]})
    yield Wide("100 commands", "bash", {"commands": [_SHELL * 8 + str(salt + n) for n in range(100)]})
    yield Wide("base64", "archive", {"value": "".join(chance.choices(_BASE64, k=BYTES))})
    yield Wide(
        "1000 base64 texts",
        "archive",
        {"values": ["".join(chance.choices(_BASE64, k=60)) for _ in range(1000)]},
    )
    yield Wide("paths", "archive", {"value": _filled(_PATH, salt)})
    yield Wide("URLs", "archive", {"value": _filled(_URL, salt)})


def _filled(unit: str, salt: int) -> str:
    return f"{unit * (BYTES // len(unit) - 1)}{salt}"


def _nested(text: str) -> dict[str, Any]:
    """Chains of maps as deep as a record may have them, as many as fit."""
    chains = [text[n * 1100 : n * 1100 + 600] for n in range(60)]
    for depth in range(50):
        chains = [{f"k{depth}": one} for one in chains]  # type: ignore[misc]
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


def fuzzed(count: int) -> Iterator[Fuzzed]:
    """`count` inputs, a third of each sort."""
    chance = random.Random(SEED)
    texts = [leaf.text for row in panel() for leaf in leaves(row.parameters)]
    mutation = Mutation(chance, _KNOWN["marks"], _SIZES, longest=_MUTATED, depth=_DEPTH)
    sorts: tuple[Callable[[], str], ...] = (
        lambda: mutation.mutated(chance.choice(texts)),
        mutation.repeated,
        lambda: mutation.nested(chance.choice(texts)),
    )
    for number in range(count):
        tool, key = chance.choice(_KNOWN["places"])
        yield Fuzzed(tool, {key: sorts[number % len(sorts)]()[:LONGEST]})


PANEL = 10_000
FUZZED = 10_000
WIDE_SALTS = 20
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
    parts, stage = bench_policy.parts(), FastReject()
    rows = of_panel(parts, panel_count)
    measurement.settle()
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
    for salt in range(WIDE_SALTS):
        for one in wide(salt):
            times[one.shape] += milliseconds(stage, [_action(parts, one.tool, one.parameters)])
    return {shape: at(every, 0.5) for shape, every in times.items()}


def _action(parts: PointParts, tool: str, parameters: dict[str, object]) -> ActionContext:
    fields = {"action_id": "a", "agent_id": AGENT, "session_id": SESSION, "toolName": tool}
    return context(parts, {**fields, "parameters": parameters, "rows_affected": 1})


def rounds(extent: Extent) -> list[Times]:
    """Every round's times."""
    return rounds_of(measure, extent, PANEL, FUZZED)


def figures(extent: Extent) -> list[Measurement]:
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
