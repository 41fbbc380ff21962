"""What a benchmark found: named figures with all rounds, their median and a goal, as a table and as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from app.settings import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` is the median of `rounds`; `goal` is prose that a reader can check; `holds`: it is met."""

    name: str
    value: float
    unit: str
    rounds: list[float]
    goal: str
    holds: bool


def at_least(name: str, rounds: Sequence[float], goal: float, unit: str = "ratio") -> Figure:
    """A figure whose median must not be below the goal."""
    median = statistics.median(rounds)
    return Figure(name, median, unit, list(rounds), f">= {goal:g}", median >= goal)


def at_most(name: str, rounds: Sequence[float], goal: float, unit: str = "ratio") -> Figure:
    """A figure whose median must not be above the goal."""
    median = statistics.median(rounds)
    return Figure(name, median, unit, list(rounds), f"<= {goal:g}", median <= goal)


def reported(name: str, rounds: Sequence[float], unit: str, goal: str = "reported") -> Figure:
    """A figure that another one is measured by, or that has no goal of its own."""
    return Figure(name, statistics.median(rounds), unit, list(rounds), goal, holds=True)


def none(name: str, rounds: Sequence[float], unit: str) -> Figure:
    """A count that must be zero in every round."""
    return Figure(name, statistics.median(rounds), unit, list(rounds), "0", not any(rounds))


def table(figures: Sequence[Figure]) -> Table:
    """One line a figure."""
    shown = Table("figure", "median", "unit", "goal", "holds", "rounds")
    for one in figures:
        rounds = " ".join(f"{value:.4g}" for value in one.rounds)
        holds = "[green]yes[/]" if one.holds else "[red]no[/]"
        shown.add_row(one.name, f"{one.value:.4g}", one.unit, one.goal, holds, rounds)
    return shown


# Where the result of a run lies.

WORK = ROOT / "build" / "bench"
TARGET = ROOT / "build" / "bench.json"


# How much is measured: the full counts of `make bench`, or a part of them to see that a program works.


@dataclass(frozen=True, slots=True)
class Extent:
    """`rounds` of each measurement, each with `share` of its full count."""

    rounds: int = 3
    share: float = 1.0

    def of(self, count: int) -> int:
        """This share of a count, at least 100."""
        return max(100, round(count * self.share))
