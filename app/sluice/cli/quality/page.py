"""The whole page: title and period, key figures with their targets, charts, tables, definitions.

The tables hold every number of the charts, and what has no chart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.cli.output import NOTHING, format_percent, make_visible
from sluice.cli.pages import Tile, render_document
from sluice.cli.quality.charts import WORDS, build_charts, describe_standing
from sluice.core.reports.report import (
    CONFIDENCE,
    COVERAGE_MEANING,
    FALSE_DENY,
    FIGURES,
    OUTCOMES,
    OVERRIDDEN,
    PROVENANCE,
    STALE,
    UNRESOLVED,
)
from sluice.text.plurals import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sluice.core.reports.report import Coverage, Figure, Figures, QualityReport


def write_page(report: QualityReport, written_at: str) -> str:
    """The document, complete in itself. `written_at` is RFC 3339, for the foot."""
    definitions = [*((figure.title, figure.meaning) for figure in FIGURES), ("Coverage", COVERAGE_MEANING)]
    return render_document(
        "quality.html",
        report=report,
        written_at=written_at,
        period=report.days or (report.scope.since or NOTHING, report.scope.until or NOTHING),
        notices=_list_notices(report),
        tiles=_make_tiles(report),
        definitions=definitions,
        **_build_tables(report),
        **build_charts(report),
        **WORDS,
    )


def _build_tables(report: QualityReport) -> dict[str, Any]:
    """Of each table its rows, the words first."""
    by_class = report.by_class.items()
    return {
        "counted": ["decisions", *OUTCOMES, *(figure.title.lower() for figure in FIGURES)],
        "total": ["everything", *_write_cells(report.overall)],
        "by_class": [[name, *_write_cells(figures)] for name, figures in by_class],
        "by_day": [[day, *_write_cells(figures)] for day, figures in report.by_day.items()],
        "by_day_and_class": [
            [*key, *_write_cells(figures)] for key, figures in report.by_day_and_class.items()
        ],
        "by_tier": [_write_tier(tier) for tier in report.coverage],
        "by_hidden": [
            [name, *(f"{figures.would_have_been[outcome]:,}" for outcome in OUTCOMES)]
            for name, figures in by_class
            if sum(figures.would_have_been.values())
        ],
        "by_alarm": [_write_alarm(alarm) for alarm in report.alarms],
    }


def _write_tier(tier: Coverage) -> list[str]:
    target = NOTHING if tier.target is None else f"{tier.target:.0%}"
    counts = f"{tier.rate.whole:,}", f"{tier.rate.part:,}"
    return [tier.tier, *counts, format_percent(tier.rate), target, describe_standing(tier)]


def _write_alarm(alarm: Mapping[str, Any]) -> list[str]:
    """Its times to the minute, kept on one line."""
    from markupsafe import Markup  # noqa: PLC0415 - with the page

    moment = Markup('<time class="t">{}</time>')
    times = (str(alarm.get(name))[:16].replace("T", " ") for name in ("raised_at", "since"))
    moments = (moment.format(make_visible(at).plain) for at in times)
    return [*moments, *(str(alarm.get(name)) for name in ("severity", "subject", "recipient", "message"))]


def _write_cells(figures: Figures) -> Iterable[str]:
    yield f"{figures.decisions:,}"
    yield from (f"{figures.outcomes[outcome]:,}" for outcome in OUTCOMES)
    yield from (format_percent(figures.rates[figure.name]) for figure in FIGURES)


def _make_tiles(report: QualityReport) -> Iterator[Tile]:
    overall = report.overall
    denied = f"{overall.share('deny'):.1%} denied" if overall.decisions else "nothing decided"
    yield Tile("Decisions", f"{overall.decisions:,}", "items judged", denied)
    for coverage in report.coverage:
        if coverage.target is not None:
            yield _make_coverage_tile(coverage)
    failed = overall.rates[PROVENANCE.name]
    missed = bool(failed.part)
    state = ("bad" if missed else "good") if failed.whole else ""
    sign = ("▲ drift or tampering" if missed else "✓ on target") if failed.whole else "nothing decided"
    yield Tile(PROVENANCE.title, format_percent(failed), "target 0%", sign, state)
    yield _make_rate_tile(report, UNRESOLVED, "first reads")
    yield _make_rate_tile(report, STALE, "leading indicator")
    yield _make_rate_tile(report, CONFIDENCE, "leading indicator")
    yield _make_rate_tile(report, FALSE_DENY, "under flag-only")
    yield _make_rate_tile(report, OVERRIDDEN, "signed exceptions")


def _make_coverage_tile(coverage: Coverage) -> Tile:
    state = "" if coverage.rate.rate is None else "bad" if coverage.short else "good"
    return Tile(
        f"Coverage {coverage.tier}",
        format_percent(coverage.rate),
        f"target {coverage.target:.0%}",
        describe_standing(coverage),
        state,
    )


def _make_rate_tile(report: QualityReport, figure: Figure, target: str) -> Tile:
    rate = report.overall.rates[figure.name]
    return Tile(figure.title, format_percent(rate), target, f"{rate.part:,} of {rate.whole:,}")


def _list_notices(report: QualityReport) -> list[str]:
    """What needs a person."""
    findings = [
        f"Coverage of {coverage.tier} is below its target: {coverage.rate.whole - coverage.rate.part:,} of "
        f"{coverage.rate.whole:,} reported {pluralize(coverage.rate.whole, 'item has', 'items have')} "
        "no decision."
        for coverage in report.coverage
        if coverage.short
    ]
    findings += [f"{alarm.get('message')} (to {alarm.get('recipient')})" for alarm in report.alarms]
    if not report.overall.decisions:
        findings.append("No decision on a retrieved item in this period.")
    return findings
