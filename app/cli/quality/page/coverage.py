"""Coverage of each tier as a bar, with its target marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.quality.page.elements import Chart, element, plain
from app.cli.quality.page.outcomes import WIDTH
from app.cli.quality.percent import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.reports.report import Coverage

_ROW, _BAR, _WIDE = 58.0, 20.0, 372.0
"""Bars end short of the width, so that the mark of the target has room."""


def coverage_chart(tiers: Sequence[Coverage]) -> str:
    """A bar for each tier; one that no store reported for is empty and says so."""
    told = "; ".join(f"{one.tier}: {percent(one.rate)}, {standing(one)}" for one in tiers)
    height = _ROW * len(tiers) + 16
    chart = Chart("coverage", "Coverage by tier", told, WIDTH, height)
    return chart.drawn(*(_row(one, number * _ROW) for number, one in enumerate(tiers)), _scale(height))


def standing(one: Coverage) -> str:
    """How a tier stands against its target, in words and a sign."""
    if one.rate.rate is None:
        return "nothing reported"
    if one.target is None:
        return "no target"
    return f"▲ below {one.target:.0%}" if one.short else "✓ on target"


def _row(one: Coverage, top: float) -> str:
    share = one.rate.rate or 0.0
    kind = "c-short" if one.short else "c-none" if one.target is None else "c-met"
    hint = element("title", f"{one.rate.part:,} of {one.rate.whole:,}")
    label = element("text", plain(one.tier), x=0, y=top + 13, class_="label")
    told = f"{percent(one.rate)} · {standing(one)}" if one.rate.rate is not None else standing(one)
    value = element("text", told, x=WIDTH, y=top + 13, class_="value", text_anchor="end")
    track = element("rect", x=0, y=top + 24, width=_WIDE, height=_BAR, class_="track")
    bar = element("rect", hint, x=0, y=top + 24, width=share * _WIDE, height=_BAR, class_=kind)
    return element("g", label, value, track, bar, _target(one, top))


def _target(one: Coverage, top: float) -> str:
    if one.target is None:
        return ""
    x = one.target * _WIDE
    line = element("line", x1=x, x2=x, y1=top + 19, y2=top + 24 + _BAR + 4, class_="target")
    flag = element("path", d=f"M{x:g} {top + 19:g}l7 3.5l-7 3.5z", class_="target-flag")
    return line + flag


def _scale(height: float) -> str:
    ends = ((0.0, "0%", "start"), (0.5, "50%", "middle"), (1.0, "100%", "middle"))
    return "".join(
        element("text", word, x=at * _WIDE, y=height - 4, class_="tick", text_anchor=anchor)
        for at, word, anchor in ends
    )
