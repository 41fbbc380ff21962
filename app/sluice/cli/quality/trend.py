"""A rate per day as lines: everything together and the largest classes, told apart by dash and marker too.

One day has no line: there each of them is a bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluice.cli.output import format_percent
from sluice.cli.quality.outcome_charts import (
    OutcomeChart,
    draw_day_ticks,
    escape_text,
    shorten,
    write_element,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.core.reports.report import Rate

_WIDTH = 560.0
_LEFT, _TOP, _WIDE, _HIGH = 62.0, 12.0, 490.0, 200.0
_TOPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0)
"""Where an axis may end."""
_MARKERS = (
    "M-2.8-2.8h5.6v5.6h-5.6z",
    "M0-4L4 0L0 4L-4 0z",
    "M0-3.6L3.6 2.9H-3.6z",
    "M0 3.6L3.6-2.9H-3.6z",
    "M-3-3L3 3M-3 3L3-3",
)
_ROW, _BAR = 46.0, 16.0
"""Of the bars of one day."""
MOST_LINES = len(_MARKERS)
_MARKED_DAYS = 45
"""With more days the markers would hide the lines; then only every third has one."""


class TrendLine(NamedTuple):
    """A name, and the rate of each day that has one."""

    name: str
    rates: Mapping[str, Rate]


def draw_trend(name: str, title: str, days: Sequence[str], lines: Sequence[TrendLine]) -> str:
    """The first of `lines` is everything together; at most `MOST_LINES` follow."""
    end = _compute_end(lines)
    description = "; ".join(f"{line.name}: {_describe(line, days)}" for line in lines)
    chart = OutcomeChart(name, title, description, _WIDTH, _TOP + _HIGH + 30)
    drawn = [_draw_line(number, line, days, end) for number, line in enumerate(lines)]
    ticks = draw_day_ticks(days, _LEFT, _WIDE, _TOP + _HIGH + 22)
    return chart.draw(_draw_axis(end), *reversed(drawn), ticks)


def draw_bars(name: str, title: str, day: str, lines: Sequence[TrendLine]) -> str:
    """The rates of one day, a bar each, on the scale that lines would have."""
    end = _compute_end(lines)
    description = "; ".join(f"{line.name}: {_describe(line, [day])}" for line in lines)
    chart = OutcomeChart(name, title, description, _WIDTH, _ROW * len(lines) + 20)
    drawn = (_draw_bar(number, line, day, end) for number, line in enumerate(lines))
    places = ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    below = _ROW * len(lines) + 14
    ticks = (
        write_element(
            "text", f"{at * end * 100:g}%", x=at * _WIDTH, y=below, class_="tick", text_anchor=anchor
        )
        for at, anchor in places
    )
    return chart.draw(*drawn, *ticks)


def _draw_bar(number: int, line: TrendLine, day: str, end: float) -> str:
    top = number * _ROW
    rate = line.rates.get(day)
    share = 0.0 if rate is None or rate.rate is None else rate.rate
    description = (
        "nothing decided" if rate is None else f"{format_percent(rate)} · {rate.part:,} of {rate.whole:,}"
    )
    label = write_element("text", escape_text(shorten(line.name)), x=0, y=top + 14, class_="label")
    value = write_element("text", description, x=_WIDTH, y=top + 14, class_="muted", text_anchor="end")
    track = write_element("rect", x=0, y=top + 21, width=_WIDTH, height=_BAR, class_="track")
    kind = "c-rate-all" if not number else "c-rate"
    bar = write_element("rect", x=0, y=top + 21, width=share / end * _WIDTH, height=_BAR, class_=kind)
    return write_element("g", label, value, track, bar)


def write_trend_legend(lines: Sequence[TrendLine]) -> str:
    """A sample of each line and its name."""
    items = (
        write_element("li", _draw_sample(number), escape_text(shorten(line.name)))
        for number, line in enumerate(lines)
    )
    return write_element("ul", *items, class_="legend")


def _draw_sample(number: int) -> str:
    stroke = write_element("path", d="M0 7H28", class_=f"line l-{number}")
    mark = write_element(
        "path", d=_MARKERS[number - 1], transform="translate(14 7)", class_=f"mark l-{number}"
    )
    inner = stroke + mark if number else stroke
    return write_element("svg", inner, viewBox="0 0 28 14", class_="sample", aria_hidden="true")


def _compute_end(lines: Sequence[TrendLine]) -> float:
    highest = max((rate.rate or 0.0 for line in lines for rate in line.rates.values()), default=0.0)
    return next(end for end in _TOPS if highest <= end)


def _draw_axis(end: float) -> str:
    drawn = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + _HIGH * (1 - share)
        drawn.append(write_element("line", x1=_LEFT, x2=_LEFT + _WIDE, y1=y, y2=y, class_="grid"))
        word = f"{share * end * 100:g}%"
        drawn.append(write_element("text", word, x=_LEFT - 5, y=y + 4, class_="tick", text_anchor="end"))
    return "".join(drawn)


def _draw_line(number: int, line: TrendLine, days: Sequence[str], end: float) -> str:
    points = list(_compute_points(line, days, end))
    paths = "".join(write_element("path", d=path, class_=f"line l-{number}") for path in _draw_paths(points))
    every = 1 if len(days) <= _MARKED_DAYS else 3
    marks = "".join(_draw_mark(number, line, *point) for point in points[::every] if point is not None)
    return write_element("g", paths, marks)


def _compute_points(
    line: TrendLine, days: Sequence[str], end: float
) -> Iterator[tuple[float, float, str] | None]:
    step = _WIDE / max(1, len(days))
    for number, day in enumerate(days):
        rate = line.rates[day].rate if day in line.rates else None
        x = _LEFT + (number + 0.5) * step
        yield None if rate is None else (x, _TOP + _HIGH * (1 - rate / end), day)


def _draw_paths(points: Sequence[tuple[float, float, str] | None]) -> Iterator[str]:
    """One path for each run of days without a gap."""
    run: list[str] = []
    for point in [*points, None]:
        if point is not None:
            run.append(f"{'L' if run else 'M'}{point[0]:.1f} {point[1]:.1f}")
        elif run:
            yield "".join(run)
            run = []


def _draw_mark(number: int, line: TrendLine, x: float, y: float, day: str) -> str:
    """A marker whose title is the value; of everything together a dot that is only there to be pointed at."""
    rate = line.rates[day]
    hint = write_element(
        "title", f"{escape_text(line.name)}, {day}: {format_percent(rate)} ({rate.part:,} of {rate.whole:,})"
    )
    if not number:
        return write_element("circle", hint, cx=x, cy=y, r=2.2, class_="dot")
    location = f"translate({x:.1f} {y:.1f})"
    return write_element("path", hint, d=_MARKERS[number - 1], transform=location, class_=f"mark l-{number}")


def _describe(line: TrendLine, days: Sequence[str]) -> str:
    registered = [day for day in days if day in line.rates and line.rates[day].rate is not None]
    if not registered:
        return "no value"
    values = [line.rates[day].rate or 0.0 for day in registered]
    first, last = (f"{format_percent(line.rates[day])} on {day}" for day in (registered[0], registered[-1]))
    return f"{first}, {last}, between {min(values):.2%} and {max(values):.2%}"
