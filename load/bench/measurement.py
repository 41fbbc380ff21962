"""How benchmarks measure: rounds in processes of their own, and named figures with a median and a goal.

A process of its own has nothing of an earlier round in its caches. Figures are shown as a table, kept as JSON
in build/bench.json, and written as the tables of docs/performance.md, one for each part.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from rich.table import Table

from load import ROOT
from sluice.cli.machine.worker import GC_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping

R = TypeVar("R")


Figures = dict[str, float]
"""What one round measured: figures by their names."""


def run_in_fresh_process(measure: Callable[..., Figures], *counts: int) -> Figures:
    """What `measure`, a module's function, returns in a process of its own.

    Raises CalledProcessError when it failed.
    """
    name = f"{measure.__module__}:{measure.__name__}"
    command = [sys.executable, "-m", "load.bench.measurement", name, *map(str, counts)]
    written = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    result: Figures = orjson.loads(written)
    return result


def rounds_of(
    measure: Callable[..., Figures], extent: Extent, *counts: int, seeded: bool = False
) -> list[Figures]:
    """`measure` of this share of its counts, once a round; `seeded`: with the round's number behind them."""
    shares = [extent.scale(count) for count in counts]
    return [
        run_in_fresh_process(measure, *shares, *([number] if seeded else []))
        for number in range(extent.rounds)
    ]


def main() -> None:
    """Run the named function and write its result to standard output."""
    module, _, name = sys.argv[1].partition(":")
    result = getattr(import_module(module), name)(*map(int, sys.argv[2:]))
    sys.stdout.buffer.write(orjson.dumps(result))


class CpuClock:
    """The process's CPU seconds by what they were spent on: the machine's other work is not in them."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def take(self, what: str, step: Callable[[], R]) -> R:
        """Run a step and add its time."""
        began = time.process_time()
        result = step()
        self.seconds[what] += time.process_time() - began
        return result


def settle() -> None:
    """The garbage collector as a worker sets it, before the measurement begins."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@dataclass(frozen=True, slots=True)
class Measurement:
    """`value` is the median of `rounds`; `goal` is prose that a reader can check; `holds`: it is met."""

    name: str
    value: float
    unit: str
    rounds: list[float]
    goal: str
    holds: bool


def require_at_least(name: str, rounds: Sequence[float], goal: float, unit: str = "ratio") -> Measurement:
    """A figure whose median must not be below the goal."""
    median = statistics.median(rounds)
    return Measurement(name, median, unit, list(rounds), f">= {goal:g}", median >= goal)


def require_at_most(name: str, rounds: Sequence[float], goal: float, unit: str = "ratio") -> Measurement:
    """A figure whose median must not be above the goal."""
    median = statistics.median(rounds)
    return Measurement(name, median, unit, list(rounds), f"<= {goal:g}", median <= goal)


def report(name: str, rounds: Sequence[float], unit: str, goal: str = "reported") -> Measurement:
    """A figure that another one is measured by, or that has no goal of its own."""
    return Measurement(name, statistics.median(rounds), unit, list(rounds), goal, holds=True)


def none(name: str, rounds: Sequence[float], unit: str) -> Measurement:
    """A count that must be zero in every round."""
    return Measurement(name, statistics.median(rounds), unit, list(rounds), "0", not any(rounds))


Judge = Callable[[str, Sequence[float]], Measurement]
"""Of a figure's name and rounds: its unit and goal, as `at_least` and the others say them."""


def judge(rounds: Sequence[Figures], table: Mapping[str, Judge]) -> list[Measurement]:
    """The table's figures in its order, as far as every round has them."""
    every = ((name, of) for name, of in table.items() if all(name in figures for figures in rounds))
    return [of(name, [figures[name] for figures in rounds]) for name, of in every]


def table(figures: Sequence[Measurement]) -> Table:
    """One line a figure."""
    shown = Table("figure", "median", "unit", "goal", "holds", "rounds")
    for figure in figures:
        rounds = " ".join(f"{value:.4g}" for value in figure.rounds)
        holds = "[green]yes[/]" if figure.holds else "[red]no[/]"
        shown.add_row(figure.name, f"{figure.value:.4g}", figure.unit, figure.goal, holds, rounds)
    return shown


WORK = ROOT / "build" / "bench"
TARGET = ROOT / "build" / "bench.json"


@dataclass(frozen=True, slots=True)
class Extent:
    """`rounds` of each measurement, each with `share` of its full count: 1 for `make bench`."""

    rounds: int = 3
    share: float = 1.0

    def scale(self, count: int) -> int:
        """This share of a count, at least 100."""
        return max(100, round(count * self.share))


_THOUSAND = 1000
_HUNDRED = 100


def markdown_tables(figures: list[dict[str, Any]]) -> str:
    """Figures of build/bench.json as Markdown, the parts in the order of the file."""
    parts = groupby(figures, key=lambda figure: figure["part"])
    return "\n\n".join(_table(part, list(own)) for part, own in parts)


def _table(part: str, figures: list[dict[str, Any]]) -> str:
    lines = [f"| {part} | median (rounds) | goal |", "|---|---|---|", *map(_line, figures)]
    return "\n".join(lines)


def _line(figure: dict[str, Any]) -> str:
    rounds = ", ".join(map(_format, figure["rounds"]))
    unit = "" if figure["unit"] == "ratio" else f" {figure['unit']}"
    goal = figure["goal"] if figure["goal"][0] in "<>0" else ""
    missed = "" if figure["holds"] else " **missed**"
    return f"| {figure['name']} | {_format(figure['value'])}{unit} ({rounds}) | {goal}{missed} |"


def _format(value: float) -> str:
    """Three digits; thousands with thin groups."""
    if abs(value) >= _THOUSAND:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.0f}" if abs(value) >= _HUNDRED else f"{value:.3g}"


if __name__ == "__main__":
    main()
