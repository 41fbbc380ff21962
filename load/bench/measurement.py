"""How benchmarks measure: rounds in processes of their own, and named figures with a median and a goal.

A process of its own has nothing of an earlier round in its caches. Figures are shown as a table, kept as JSON
in build/bench.json, and written as the tables of docs/performance.md, one for each part.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.table import Table

from app.cli.machine.worker import GC_THRESHOLDS
from app.settings import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance


def in_fresh_process(module: str, *arguments: int) -> Any:
    """What the module, run as a program, told by `tell`. Raises CalledProcessError when it failed."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)


def settle() -> None:
    """The garbage collector as a worker sets it, before the measurement begins."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def send_result(result: DataclassInstance) -> None:
    """Hand a dataclass of JSON values to the process that asked."""
    json.dump(asdict(result), sys.stdout)


@dataclass(frozen=True, slots=True)
class Measurement:
    """`value` is the median of `rounds`; `goal` is prose that a reader can check; `holds`: it is met."""

    name: str
    value: float
    unit: str
    rounds: list[float]
    goal: str
    holds: bool


def at_least(name: str, rounds: Sequence[float], goal: float, unit: str = "ratio") -> Measurement:
    """A figure whose median must not be below the goal."""
    median = statistics.median(rounds)
    return Measurement(name, median, unit, list(rounds), f">= {goal:g}", median >= goal)


def at_most(name: str, rounds: Sequence[float], goal: float, unit: str = "ratio") -> Measurement:
    """A figure whose median must not be above the goal."""
    median = statistics.median(rounds)
    return Measurement(name, median, unit, list(rounds), f"<= {goal:g}", median <= goal)


def reported(name: str, rounds: Sequence[float], unit: str, goal: str = "reported") -> Measurement:
    """A figure that another one is measured by, or that has no goal of its own."""
    return Measurement(name, statistics.median(rounds), unit, list(rounds), goal, holds=True)


def none(name: str, rounds: Sequence[float], unit: str) -> Measurement:
    """A count that must be zero in every round."""
    return Measurement(name, statistics.median(rounds), unit, list(rounds), "0", not any(rounds))


def table(figures: Sequence[Measurement]) -> Table:
    """One line a figure."""
    shown = Table("figure", "median", "unit", "goal", "holds", "rounds")
    for one in figures:
        rounds = " ".join(f"{value:.4g}" for value in one.rounds)
        holds = "[green]yes[/]" if one.holds else "[red]no[/]"
        shown.add_row(one.name, f"{one.value:.4g}", one.unit, one.goal, holds, rounds)
    return shown


WORK = ROOT / "build" / "bench"
TARGET = ROOT / "build" / "bench.json"


@dataclass(frozen=True, slots=True)
class Extent:
    """`rounds` of each measurement, each with `share` of its full count: 1 for `make bench`."""

    rounds: int = 3
    share: float = 1.0

    def of(self, count: int) -> int:
        """This share of a count, at least 100."""
        return max(100, round(count * self.share))


_THOUSAND = 1000
_HUNDRED = 100


def markdown_tables(figures: list[dict[str, Any]]) -> str:
    """Figures of build/bench.json as Markdown, the parts in the order of the file."""
    parts = groupby(figures, key=lambda one: one["part"])
    return "\n\n".join(_table(part, list(own)) for part, own in parts)


def _table(part: str, figures: list[dict[str, Any]]) -> str:
    lines = [f"| {part} | median (rounds) | goal |", "|---|---|---|", *map(_line, figures)]
    return "\n".join(lines)


def _line(one: dict[str, Any]) -> str:
    rounds = ", ".join(map(_shown, one["rounds"]))
    unit = "" if one["unit"] == "ratio" else f" {one['unit']}"
    goal = one["goal"] if one["goal"][0] in "<>0" else ""
    missed = "" if one["holds"] else " **missed**"
    return f"| {one['name']} | {_shown(one['value'])}{unit} ({rounds}) | {goal}{missed} |"


def _shown(value: float) -> str:
    """Three digits; thousands with thin groups."""
    if abs(value) >= _THOUSAND:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.0f}" if abs(value) >= _HUNDRED else f"{value:.3g}"
