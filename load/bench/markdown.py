"""`python -m load.bench.markdown`: build/bench.json as tables of docs/performance.md, one for each part."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

from load.bench.figures import TARGET

_THOUSAND = 1000
_HUNDRED = 100


def tables(figures: list[dict[str, Any]]) -> str:
    """Parts in the order of the file."""
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


if __name__ == "__main__":
    print(tables(json.loads(TARGET.read_bytes())["figures"]))
