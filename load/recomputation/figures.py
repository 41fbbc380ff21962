"""What a fault run or a benchmark found: named values with a goal, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunFigure:
    """One value. `goal` is prose that a reader can check ("0", "> 0"); `holds` says whether it is met."""

    name: str
    value: float
    unit: str
    goal: str
    holds: bool


SHOWN = 3
SOME = "> 0"
"""The goal of what must have happened, or the fault did not bite."""


def none(name: str, value: float, unit: str) -> RunFigure:
    """A value that must be zero."""
    return RunFigure(name, value, unit, "0", value == 0)


def no_problems(name: str, problems: Sequence[str]) -> RunFigure:
    """How many there are, which must be none. The first few are printed."""
    for problem in problems[:SHOWN]:
        print(f"  {name}: {problem}")
    return none(name, len(problems), "findings")


def some(name: str, value: float, unit: str) -> RunFigure:
    """A value that must be above zero, or the fault did not bite."""
    return RunFigure(name, value, unit, SOME, value > 0)


def exactly(name: str, value: float, goal: float, unit: str) -> RunFigure:
    """A value that must be the goal."""
    return RunFigure(name, value, unit, f"= {goal:g}", value == goal)


def require_at_least(name: str, value: float, goal: float, unit: str) -> RunFigure:
    """A value that must not be below the goal."""
    return RunFigure(name, value, unit, f">= {goal:g}", value >= goal)


def require_at_most(name: str, value: float, goal: float, unit: str) -> RunFigure:
    """A value that must not be above the goal."""
    return RunFigure(name, value, unit, f"<= {goal:g}", value <= goal)


def report(name: str, value: float, unit: str) -> RunFigure:
    """A value without a goal."""
    return RunFigure(name, value, unit, "reported", holds=True)


def add_prefix(prefix: str, figures: Iterable[RunFigure]) -> list[RunFigure]:
    """The same figures as `prefix.name`."""
    return [RunFigure(f"{prefix}.{f.name}", f.value, f.unit, f.goal, f.holds) for f in figures]


def table(figures: Iterable[RunFigure]) -> str:
    """One line a figure; what does not hold is marked."""
    return "\n".join(
        f"{'ok  ' if f.holds else 'FAIL'} {f.name:<48} {f.value:>10g} {f.unit:<14} goal {f.goal}"
        for f in figures
    )


def write(path: Path, figures: Iterable[RunFigure]) -> None:
    """A JSON list of {name, value, unit, goal, holds}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(f) for f in figures], indent=2) + "\n", encoding="utf-8")
