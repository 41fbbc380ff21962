"""Outcomes as stacked bars, one a class, or columns, one a day: told apart by colour, pattern and place.

Here too the elements of HTML and SVG that all charts are made of: every text and attribute is escaped here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from html import escape
from typing import TYPE_CHECKING

from sluice.cli.output import make_visible
from sluice.core.reports.report import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.reports.report import Figures


MAX_LABEL = 30


def escape_text(value: object) -> str:
    """Text of a record, escaped; invisible characters are shown as code points."""
    return escape(make_visible(str(value)).plain)


def shorten(value: str) -> str:
    """A name that fits a chart, not escaped yet; the tables have it whole."""
    return value if len(value) <= MAX_LABEL else f"{value[: MAX_LABEL - 1]}…"


def write_element(name: str, *inner: str, **attributes: object) -> str:
    """`inner` is markup already; an attribute's underscore is a hyphen, a last one is dropped (class_)."""
    written = "".join(f' {_spell(key)}="{escape(_write_value(value))}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(inner)}</{name}>"


def _spell(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _write_value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class OutcomeChart:
    """A drawing with what a reader who does not see it is told; sizes in units of its own view box."""

    name: str
    title: str
    description: str
    width: float
    height: float

    def draw(self, *inner: str) -> str:
        """The SVG. `name` is unique on the page."""
        title = write_element("title", escape_text(self.title), id=f"{self.name}-title")
        description = write_element("desc", escape_text(self.description), id=f"{self.name}-desc")
        return write_element(
            "svg",
            title,
            description,
            *inner,
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            role="img",
            aria_labelledby=f"{self.name}-title {self.name}-desc",
        )


def write_card(title: str, note: str, *inner: str, class_: str = "card") -> str:
    """A chart or a table with its title and one sentence that says what it shows."""
    caption = write_element(
        "figcaption", write_element("h3", escape_text(title)), write_element("p", escape_text(note))
    )
    return write_element("figure", caption, *inner, class_=class_)


WIDTH = 400.0
_ROW, _BAR = 50.0, 22.0
_LABELLED = 0.1
"""A narrower segment has no room for its percentage; the table has it."""
_COLUMNS = (38.0, 8.0, 354.0, 120.0)
"""Left, top, width and height of the columns' area."""
_GAP = 0.18


def write_legend() -> str:
    """A swatch and a word for each outcome, in the order in which they are stacked."""
    return write_element(
        "ul",
        *(write_element("li", draw_swatch(outcome), escape_text(outcome)) for outcome in OUTCOMES),
        class_="legend",
    )


def draw_swatch(outcome: str) -> str:
    """A small square in the outcome's colour and pattern."""
    square = write_element("rect", width=14, height=14, rx=2, class_=f"o-{outcome}")
    return write_element("svg", square, viewBox="0 0 14 14", class_="swatch", aria_hidden="true")


def draw_by_class(name: str, title: str, counts: Mapping[str, Mapping[str, int]]) -> str:
    """A bar for each name: the share of each outcome in `counts`, as outcome to how often."""
    description = "; ".join(f"{outcome}: {_describe(counts[outcome])}" for outcome in counts)
    chart = OutcomeChart(name, title, description, WIDTH, _ROW * len(counts) + 18)
    rows = (_draw_row(label, number * _ROW, counts[label]) for number, label in enumerate(counts))
    return chart.draw(*rows, _draw_scale(_ROW * len(counts)))


def _draw_row(label: str, top: float, counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    text = write_element("text", escape_text(shorten(label)), x=0, y=top + 14, class_="label")
    number = write_element("text", f"{total:,}", x=WIDTH, y=top + 14, class_="muted", text_anchor="end")
    segments = []
    left = 0.0
    for outcome in OUTCOMES:
        share = counts[outcome] / total if total else 0.0
        if share:
            segments.append(_draw_segment(outcome, left, top + 21, share))
        left += share * WIDTH
    return write_element("g", text, number, *segments)


def _draw_segment(outcome: str, left: float, top: float, share: float) -> str:
    hint = write_element("title", f"{outcome}: {share:.1%}")
    width = share * WIDTH
    bar = write_element("rect", hint, x=left, y=top, width=width, height=_BAR, class_=f"o-{outcome}")
    if share < _LABELLED:
        return bar
    middle = {"x": left + width / 2, "y": top + _BAR / 2 + 4.5, "text_anchor": "middle"}
    return bar + write_element("text", f"{share:.0%}", **middle, class_="halo")


def _draw_scale(top: float) -> str:
    ends = ((0.0, "0%", "start"), (0.5, "50%", "middle"), (1.0, "100%", "end"))
    return "".join(
        write_element("text", word, x=at * WIDTH, y=top + 12, class_="tick", text_anchor=anchor)
        for at, word, anchor in ends
    )


def draw_by_day(name: str, title: str, days: Sequence[str], figures: Mapping[str, Figures]) -> str:
    """A column for each day of `days`, with a gap where nothing was decided."""
    left, top, width, height = _COLUMNS
    description = "; ".join(f"{day}: {_describe(figures[day].outcomes)}" for day in days if day in figures)
    step = width / max(1, len(days))
    columns = (
        _draw_column(day, left + number * step, step, figures[day])
        for number, day in enumerate(days)
        if day in figures
    )
    chart = OutcomeChart(name, title, description, WIDTH, top + height + 20)
    return chart.draw(_draw_grid(), *columns, draw_day_ticks(days, left, width, top + height + 14))


def _draw_column(day: str, left: float, step: float, figures: Figures) -> str:
    _, top, _, height = _COLUMNS
    segments = [write_element("title", f"{day}: {_describe(figures.outcomes)}")]
    bottom = top + height
    for outcome in OUTCOMES:
        tall = figures.share(outcome) * height
        bottom -= tall
        if tall:
            box = {"x": left + step * _GAP / 2, "y": bottom, "width": step * (1 - _GAP), "height": tall}
            segments.append(write_element("rect", **box, class_=f"o-{outcome}"))
    return write_element("g", *segments)


def _draw_grid() -> str:
    left, top, width, height = _COLUMNS
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = top + height * (1 - share)
        lines.append(write_element("line", x1=left, x2=left + width, y1=y, y2=y, class_="grid"))
        lines.append(
            write_element("text", f"{share:.0%}", x=left - 4, y=y + 4, class_="tick", text_anchor="end")
        )
    return "".join(lines)


def draw_day_ticks(days: Sequence[str], left: float, width: float, y: float) -> str:
    """The first, the middle and the last day beneath a chart with equal room for each."""
    step = width / max(1, len(days))
    marked = dict.fromkeys((0, len(days) // 2, len(days) - 1)) if days else {}
    return "".join(
        write_element(
            "text",
            f"{date.fromisoformat(days[number]):%-d %b}",
            x=left + (number + 0.5) * step,
            y=y,
            class_="tick",
            text_anchor="start"
            if not number and len(days) > 1
            else "middle"
            if number < len(days) - 1
            else "end",
        )
        for number in marked
    )


def list_days(first: str, last: str, most: int) -> list[str]:
    """Every day from the first to the last, of more than `most` the last ones."""
    end = date.fromisoformat(last)
    count = min(most, (end - date.fromisoformat(first)).days + 1)
    return [(end - timedelta(days=back)).isoformat() for back in reversed(range(count))]


def _describe(counts: Mapping[str, int]) -> str:
    total = sum(counts.values()) or 1
    return ", ".join(f"{outcome} {counts[outcome] / total:.1%}" for outcome in OUTCOMES)
