"""What the page's charts show, and how it is said in words; templates/charts.html draws it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.output import format_percent
from sluice.core.reports.report import OUTCOMES, PROVENANCE, STALE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sluice.core.reports.report import Coverage, Figure, Figures, QualityReport, Rate

MAX_LABEL = 30
MOST_DAYS = 92
"""A quarter; the tables have every day."""
MOST_CLASSES = 12
MOST_MULTIPLES = 6
MOST_LINES = 5
"""Beside everything together: the template has a marker for each."""
LEAST_SHARE = 0.02
"""A smaller class has too few decisions a day for a rate that means anything."""
_ENDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0)
"""Where an axis may end."""


class TrendLine(NamedTuple):
    """A name, and the rate of each day that has one."""

    name: str
    rates: Mapping[str, Rate]


class Trend(NamedTuple):
    """A rate by day: everything together, and then the largest classes. `name` is unique on the page."""

    name: str
    title: str
    note: str
    lines: list[TrendLine]


class OutcomeShare(NamedTuple):
    """An outcome's share of all, and the share of what is stacked before it: 0 to 1."""

    outcome: str
    begin: float
    share: float


def build_charts(report: QualityReport) -> dict[str, Any]:
    """What the charts show, by the names of templates/quality.html."""
    days = [] if report.days is None else list_days(*report.days, MOST_DAYS)
    classes = dict(_find_largest(report, MOST_CLASSES))
    hidden = {name: figures.would_have_been for name, figures in classes.items()}
    return {
        "days": days,
        "classes": {name: figures.outcomes for name, figures in classes.items()},
        "classes_left_out": _describe_left_out(report, MOST_CLASSES),
        "hidden": {name: counts for name, counts in hidden.items() if sum(counts.values())},
        "trends": [_make_trend(report, figure) for figure in (STALE, PROVENANCE)],
        "multiples": list(_make_multiples(report, days)),
    }


def describe_standing(coverage: Coverage) -> str:
    """Describe how a tier stands against its target, in words and a sign."""
    if coverage.rate.rate is None:
        return "nothing reported"
    if coverage.target is None:
        return "no target"
    return f"▲ below {coverage.target:.0%}" if coverage.short else "✓ on target"


def _describe_coverage(tiers: Iterable[Coverage]) -> str:
    return "; ".join(f"{tier.tier}: {format_percent(tier.rate)}, {describe_standing(tier)}" for tier in tiers)


def list_days(first: str, last: str, most: int) -> list[str]:
    """Every day from the first to the last, of more than `most` the last ones."""
    end = date.fromisoformat(last)
    count = min(most, (end - date.fromisoformat(first)).days + 1)
    return [(end - timedelta(days=back)).isoformat() for back in reversed(range(count))]


def _shorten_day(day: str) -> str:
    return f"{date.fromisoformat(day):%-d %b}"


def _shorten(name: str) -> str:
    """A name that fits a chart; the tables have it whole."""
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"


def _find_largest(report: QualityReport, most: int) -> list[tuple[str, Figures]]:
    """The classes with most decisions, the largest first."""
    return sorted(report.by_class.items(), key=lambda row: (-row[1].decisions, row[0]))[:most]


def _make_trend(report: QualityReport, figure: Figure) -> Trend:
    least = report.overall.decisions * LEAST_SHARE
    drawn = [name for name, figures in _find_largest(report, MOST_LINES) if figures.decisions >= least]
    lines = [_make_line("everything", figure, report.by_day)]
    for name in drawn:
        days = {day: figures for (day, of), figures in report.by_day_and_class.items() if of == name}
        lines.append(_make_line(name, figure, days))
    note = f"{figure.meaning[0].upper()}{figure.meaning[1:]}.{_describe_left_out(report, len(drawn))}"
    return Trend(f"trend-{figure.name}", f"{figure.title} by day", note, lines)


def _make_line(name: str, figure: Figure, days: Mapping[str, Figures]) -> TrendLine:
    rates = {day: figures.rates[figure.name] for day, figures in days.items()}
    return TrendLine(name, {day: rate for day, rate in rates.items() if rate.rate is not None})


def _make_multiples(
    report: QualityReport, days: Sequence[str]
) -> Iterator[tuple[str, int, dict[str, dict[str, int]]]]:
    """A class, its decisions, and the outcomes of each day that has any."""
    for name, figures in _find_largest(report, MOST_MULTIPLES):
        of_days = ((day, report.by_day_and_class.get((day, name))) for day in days)
        yield name, figures.decisions, {day: each.outcomes for day, each in of_days if each is not None}


def _describe_left_out(report: QualityReport, most: int) -> str:
    left = len(report.by_class) - most
    if left <= 0:
        return ""
    return f" {left} smaller {'class is' if left == 1 else 'classes are'} in the tables alone."


def _stack_shares(counts: Mapping[str, int]) -> Iterator[OutcomeShare]:
    """The outcomes that there are, in the order in which they are stacked."""
    total, begin = sum(counts.values()), 0
    for outcome in OUTCOMES:
        if count := counts[outcome]:
            yield OutcomeShare(outcome, begin / total, count / total)
        begin += count


def _describe_shares(rows: Mapping[str, Mapping[str, int]]) -> str:
    """Of each name how often each outcome was, in words."""
    totals = {name: sum(counts.values()) or 1 for name, counts in rows.items()}
    shares = {
        name: ", ".join(f"{outcome} {counts[outcome] / totals[name]:.1%}" for outcome in OUTCOMES)
        for name, counts in rows.items()
    }
    return "; ".join(f"{name}: {words}" for name, words in shares.items())


def _find_end(lines: Iterable[TrendLine]) -> float:
    highest = max((rate.rate or 0.0 for line in lines for rate in line.rates.values()), default=0.0)
    return next(end for end in _ENDS if highest <= end)


def _describe_lines(lines: Iterable[TrendLine], days: Sequence[str]) -> str:
    return "; ".join(f"{line.name}: {_describe_line(line, days)}" for line in lines)


def _describe_line(line: TrendLine, days: Sequence[str]) -> str:
    dated = [(day, line.rates[day]) for day in days if day in line.rates]
    if not dated:
        return "no value"
    values = [rate.rate or 0.0 for _, rate in dated]
    first, last = (f"{format_percent(rate)} on {day}" for day, rate in (dated[0], dated[-1]))
    return f"{first}, {last}, between {min(values):.2%} and {max(values):.2%}"


WORDS = {
    "describe_coverage": _describe_coverage,
    "describe_lines": _describe_lines,
    "describe_shares": _describe_shares,
    "describe_standing": describe_standing,
    "find_end": _find_end,
    "outcomes": OUTCOMES,
    "shorten": _shorten,
    "shorten_day": _shorten_day,
    "stack_shares": _stack_shares,
}
"""What templates/charts.html calls."""
