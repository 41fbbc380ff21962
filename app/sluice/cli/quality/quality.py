"""`sluice quality`: what the ledger says of retrievals, and the rollout of a class."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.output import (
    NOTHING,
    WELL,
    WRONG,
    clean,
    errors,
    format_percent,
    print_json,
    print_parts,
    write_file,
)
from sluice.cli.quality.page import write_page
from sluice.cli.quality.quality_changes import override, promote
from sluice.cli.quality_read import From, read_or_stop, require_day
from sluice.cli.tables import build_table, fold
from sluice.core.foundation.clock import rfc3339
from sluice.core.reports.ledger_values import ALARM, DECISION, REPORTED
from sluice.core.reports.report import FIGURES, OUTCOMES, build_quality_report
from sluice.core.reports.report_tally import QualityTally, ReportScope
from sluice_topics.catalog import ALARMS, QUALITY_DECISIONS, SESSION_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from sluice.core.reports.report import Coverage, Figures, QualityReport


_EVERYTHING = "everything"


def build_report_parts(
    report: QualityReport, rows_by: Iterable[str] = ("class", "day")
) -> Iterator[RenderableType]:
    """Tables by class and by day, one of the tiers' coverage; then what needs a person."""
    if not report.overall.decisions:
        yield "[yellow]No decision on a retrieved item in this period.[/]"
    else:
        tenant = clean(report.scope.tenant or "every tenant")
        yield f"[bold]Quality posture[/], {_describe_period(report)}, {tenant}"
        rows = {"class": report.by_class, "day": report.by_day}
        for heading in rows_by:
            yield _build_outcomes(f"Outcomes by {heading}", heading, rows[heading], report.overall)
            yield _build_rates(f"Rates by {heading}", heading, rows[heading], report.overall)
    yield _build_coverage(report.coverage)
    for coverage in report.coverage:
        if coverage.short:
            share = format_percent(coverage.rate)
            yield f"[bold red]Coverage of {coverage.tier} is below its target:[/] {share}"
    if report.alarms:
        yield from build_alarm_parts(report.alarms)
    if report.basis is not None:
        heads = ", ".join(f"{head.partition}: {head.sequence}" for head in report.basis.heads) or "none"
        named = ", ".join(report.basis.environments) or "none named"
        yield f"[dim]Read from {clean(report.basis.source)}; installation: {clean(named)}; heads: {heads}[/]"


def build_alarm_parts(alarms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each alarm, the oldest first."""
    if not alarms:
        yield "No alarm."
    for alarm in alarms:
        colour = "bold red" if alarm["severity"] == "critical" else "yellow"
        text = f"{alarm['subject']}, to {alarm['recipient']}: {alarm['message']}"
        yield f"[{colour}]alarm[/] {clean(alarm['raised_at'])} {clean(text)}"


def _describe_period(report: QualityReport) -> str:
    first, last = report.days or (NOTHING, NOTHING)
    return f"{clean(first)} to {clean(last)}"


def _build_outcomes(title: str, heading: str, rows: Mapping[str, Figures], overall: Figures) -> Table:
    cells = (
        (clean(name), str(figures.decisions), *(str(figures.outcomes[outcome]) for outcome in OUTCOMES))
        for name, figures in [*rows.items(), (_EVERYTHING, overall)]
    )
    return _build_headed(title, (heading, "decisions", *OUTCOMES), cells)


def _build_rates(title: str, heading: str, rows: Mapping[str, Figures], overall: Figures) -> Table:
    cells = (
        (clean(name), *(format_percent(figures.rates[figure.name]) for figure in FIGURES))
        for name, figures in [*rows.items(), (_EVERYTHING, overall)]
    )
    return _build_headed(title, (heading, *(figure.title.lower() for figure in FIGURES)), cells)


def _build_headed(title: str, headings: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    """The first column is words, the others are numbers."""
    words = (name.replace(" ", "\n") for name in headings)  # one line each, or the numbers do not fit
    first, *numbers = fold(*words)
    for column in numbers:
        column.justify = "right"
    return build_table(first, *numbers, rows=rows, title=title)


def _build_coverage(tiers: Iterable[Coverage]) -> Table:
    headings = ("tier", "reported", "covered", "coverage", "target")
    rows = (
        (
            tier.tier,
            str(tier.rate.whole),
            str(tier.rate.part),
            format_percent(tier.rate),
            NOTHING if tier.target is None else f"{tier.target:.0%}",
        )
        for tier in tiers
    )
    return _build_headed("Coverage: reported items with a decision", headings, rows)


cli = typer.Typer(
    name="quality",
    no_args_is_help=True,
    help="Retrievals: the report of how items were decided, alarms, the promotion of a content class from "
    "flag-only to enforcing, signed overrides of single items. A pass is a floor, not a proof that an item "
    "is correct.",
)
cli.command()(promote)
cli.command()(override)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


@cli.command()
def report(
    from_: From = None,
    *,
    since: Annotated[str | None, typer.Option(metavar="DAY", help="First day, in UTC: 2026-01-31.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DAY", help="Last day, in UTC.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page with charts; it needs no network.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how retrieved items were decided, by day and content class.

    It shows outcomes, stale retrievals, provenance failures, false denies
    under flag-only, and the coverage of each tier: of the items that stores
    report as returned, the share that has a decision. It reads only the
    ledger.

    Exit codes: 0 shown; 1 shown, and coverage of a tier is below its
    target; 2 could not do it.

    Example: sluice quality report --since 2026-01-01 --html report.html
    """
    tally = QualityTally(ReportScope(require_day(since), require_day(until), tenant))
    sinks = {DECISION: tally.count_decision, REPORTED: tally.count_report, ALARM: tally.count_alarm}
    basis = read_or_stop((QUALITY_DECISIONS, SESSION_EVENTS, ALARMS), sinks, from_)
    quality_report = build_quality_report(tally, basis)
    if html is not None:
        write_file(html, write_page(quality_report, rfc3339(time.time_ns() // 1_000_000)).encode())
        errors.print(f"written: {clean(html)}", soft_wrap=True, highlight=False)
    if as_json:
        print_json(quality_report.fields())
    else:
        print_parts(build_report_parts(quality_report))
    raise typer.Exit(WRONG if any(coverage.short for coverage in quality_report.coverage) else WELL)


@cli.command()
def alarms(from_: From = None, as_json: AsJson = False) -> None:
    """Show the alarms of the ledger: classes that stay in flag-only too long.

    It shows the newest alarm of each quality bundle and class.

    Exit codes: 0 shown, also when there is none; 2 could not read.
    """
    tally = QualityTally()
    read_or_stop((ALARMS,), {ALARM: tally.count_alarm}, from_)
    matches = build_quality_report(tally).alarms
    if as_json:
        print_json(list(matches))
    else:
        print_parts(build_alarm_parts(matches))
