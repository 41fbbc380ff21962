"""The page's charts: which there are and of what, and coverage of each tier as a bar with its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.cli.output import format_percent
from sluice.cli.quality.outcome_charts import (
    WIDTH,
    OutcomeChart,
    draw_by_class,
    draw_by_day,
    escape_text,
    list_days,
    shorten,
    write_card,
    write_element,
    write_legend,
)
from sluice.cli.quality.trend import MOST_LINES, TrendLine, draw_bars, draw_trend, write_trend_legend
from sluice.core.reports.report import PROVENANCE, STALE
from sluice.text.plurals import pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.reports.report import Coverage, Figure, Figures, QualityReport

_ROW, _BAR, _WIDE = 58.0, 20.0, 372.0
"""Bars end short of the width, so that the mark of the target has room."""


def draw_coverage(tiers: Sequence[Coverage]) -> str:
    """A bar for each tier; one that no store reported for is empty and says so."""
    description = "; ".join(
        f"{tier.tier}: {format_percent(tier.rate)}, {describe_standing(tier)}" for tier in tiers
    )
    height = _ROW * len(tiers) + 16
    chart = OutcomeChart("coverage", "Coverage by tier", description, WIDTH, height)
    return chart.draw(
        *(_draw_row(tier, number * _ROW) for number, tier in enumerate(tiers)), _draw_scale(height)
    )


def describe_standing(coverage: Coverage) -> str:
    """Describe how a tier stands against its target, in words and a sign."""
    if coverage.rate.rate is None:
        return "nothing reported"
    if coverage.target is None:
        return "no target"
    return f"▲ below {coverage.target:.0%}" if coverage.short else "✓ on target"


def _draw_row(coverage: Coverage, top: float) -> str:
    share = coverage.rate.rate or 0.0
    kind = "c-short" if coverage.short else "c-none" if coverage.target is None else "c-met"
    hint = write_element("title", f"{coverage.rate.part:,} of {coverage.rate.whole:,}")
    label = write_element("text", escape_text(coverage.tier), x=0, y=top + 13, class_="label")
    description = (
        f"{format_percent(coverage.rate)} · {describe_standing(coverage)}"
        if coverage.rate.rate is not None
        else describe_standing(coverage)
    )
    value = write_element("text", description, x=WIDTH, y=top + 13, class_="value", text_anchor="end")
    track = write_element("rect", x=0, y=top + 24, width=_WIDE, height=_BAR, class_="track")
    bar = write_element("rect", hint, x=0, y=top + 24, width=share * _WIDE, height=_BAR, class_=kind)
    return write_element("g", label, value, track, bar, _draw_target(coverage, top))


def _draw_target(coverage: Coverage, top: float) -> str:
    if coverage.target is None:
        return ""
    x = coverage.target * _WIDE
    line = write_element("line", x1=x, x2=x, y1=top + 19, y2=top + 24 + _BAR + 4, class_="target")
    flag = write_element("path", d=f"M{x:g} {top + 19:g}l7 3.5l-7 3.5z", class_="target-flag")
    return line + flag


def _draw_scale(height: float) -> str:
    ends = ((0.0, "0%", "start"), (0.5, "50%", "middle"), (1.0, "100%", "middle"))
    return "".join(
        write_element("text", word, x=at * _WIDE, y=height - 4, class_="tick", text_anchor=anchor)
        for at, word, anchor in ends
    )


MOST_DAYS = 92
"""A quarter; the tables have every day."""
MOST_CLASSES = 12
MOST_MULTIPLES = 6
LEAST_SHARE = 0.02
"""A smaller class has too few decisions a day for a rate that means anything."""


def draw_charts(report: QualityReport) -> str:
    """Every section of charts; none where there is nothing to draw."""
    covered = write_card(
        "Coverage by tier",
        "Items that stores reported as returned that have a decision. The mark is the target.",
        draw_coverage(report.coverage),
    )
    if report.days is None:
        return write_element("section", _write_heading("Coverage"), _arrange(covered))
    days = list_days(*report.days, MOST_DAYS)
    return "".join(
        [
            write_element(
                "section",
                _write_heading("Outcomes"),
                _arrange(_draw_classes(report), covered, _draw_hidden(report)),
            ),
            write_element(
                "section",
                _write_heading("Drift"),
                _arrange(_draw_trend(report, STALE, days), _draw_trend(report, PROVENANCE, days)),
            ),
            write_element(
                "section",
                _write_heading("Outcomes by day"),
                write_legend(),
                _arrange(*_draw_multiples(report, days)),
            ),
        ]
    )


def _write_heading(title: str) -> str:
    return write_element("h2", title)


def _arrange(*cards: str) -> str:
    return write_element("div", *cards, class_="grid")


def _find_largest(report: QualityReport, most: int) -> list[tuple[str, Figures]]:
    """The classes with most decisions, the largest first."""
    return sorted(report.by_class.items(), key=lambda row: (-row[1].decisions, row[0]))[:most]


def _draw_classes(report: QualityReport) -> str:
    counts = {name: figures.outcomes for name, figures in _find_largest(report, MOST_CLASSES)}
    note = "Share of each outcome; on the right the number of decisions."
    title = "Outcomes by content class"
    return write_card(
        title,
        note + _describe_left_out(report, MOST_CLASSES),
        write_legend(),
        draw_by_class("classes", title, counts),
    )


def _draw_hidden(report: QualityReport) -> str:
    counted = {
        name: figures.would_have_been
        for name, figures in _find_largest(report, MOST_CLASSES)
        if sum(figures.would_have_been.values())
    }
    if not counted:
        return ""
    title = "What enforcing would have said"
    note = "Decisions under flag-only or shadow mode, by the outcome that was held back."
    return write_card(title, note, write_legend(), draw_by_class("hidden", title, counted))


def _draw_trend(report: QualityReport, figure: Figure, days: list[str]) -> str:
    everything = TrendLine(
        "everything", {day: figures.rates[figure.name] for day, figures in report.by_day.items()}
    )
    least = report.overall.decisions * LEAST_SHARE
    drawn_classes = [
        name for name, figures in _find_largest(report, MOST_LINES) if figures.decisions >= least
    ]
    lines = [everything, *(_make_line(report, figure, name) for name in drawn_classes)]
    title = f"{figure.title} by day"
    note = f"{figure.meaning[0].upper()}{figure.meaning[1:]}."
    note += _describe_left_out(report, len(drawn_classes))
    if len(days) == 1:
        drawn = draw_bars(f"trend-{figure.name}", title, days[0], lines)
        return write_card(title, note, drawn, class_="card wide")
    drawn = draw_trend(f"trend-{figure.name}", title, days, lines)
    return write_card(title, note, write_trend_legend(lines), drawn, class_="card wide")


def _make_line(report: QualityReport, figure: Figure, name: str) -> TrendLine:
    items = report.by_day_and_class.items()
    return TrendLine(name, {day: figures.rates[figure.name] for (day, of), figures in items if of == name})


def _draw_multiples(report: QualityReport, days: list[str]) -> list[str]:
    drawn = []
    for number, (name, series) in enumerate(_find_largest(report, MOST_MULTIPLES)):
        figures = {
            day: figures_of_day for (day, of), figures_of_day in report.by_day_and_class.items() if of == name
        }
        drawing, title = f"days-{number}", f"Outcomes by day: {name}"
        if len(days) == 1:
            chart = draw_by_class(drawing, title, {day: of_day.outcomes for day, of_day in figures.items()})
        else:
            chart = draw_by_day(drawing, title, days, figures)
        drawn.append(
            write_card(
                shorten(name), f"{series.decisions:,} {pluralize(series.decisions, 'decision')}", chart
            )
        )
    return drawn


def _describe_left_out(report: QualityReport, most: int) -> str:
    left = len(report.by_class) - most
    if left <= 0:
        return ""
    return f" {left} smaller {'class is' if left == 1 else 'classes are'} in the tables alone."
