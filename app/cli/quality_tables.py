"""The quality report and its alarms on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from app.cli.output import console, shown
from app.cli.percent import NOTHING, percent
from app.core.retrieval.report_figures import FIGURES, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.core.retrieval.report import Coverage, QualityReport
    from app.core.retrieval.report_figures import Figures


def print_report(report: QualityReport) -> None:
    """A table by class, one by day, one of the tiers' coverage; then what needs a person."""
    if not report.overall.decisions:
        _line("[yellow]No decision on a retrieved item in this period.[/]")
    else:
        _line(f"[bold]Quality posture[/], {_period(report)}, {shown(report.scope.tenant or 'every tenant')}")
        console.print(_table("By content class", "class", report.by_class, report.overall))
        console.print(_table("By day", "day", report.by_day, report.overall))
    console.print(_coverage(report.coverage))
    for one in report.coverage:
        if one.short:
            _line(f"[bold red]Coverage of {one.tier} is below its target:[/] {percent(one.rate)}")
    if report.alarms:
        print_alarms(report.alarms)


def print_alarms(alarms: Sequence[Mapping[str, Any]]) -> None:
    """Each alarm, the oldest first."""
    if not alarms:
        _line("No alarm.")
        return
    table = Table(title="Alarms", box=None, pad_edge=False)
    names = ("raised_at", "severity", "subject", "since", "recipient", "message")
    for name in names:
        table.add_column(name.replace("_", " "), overflow="fold")
    for alarm in alarms:
        table.add_row(*(shown(alarm.get(name, NOTHING)) for name in names))
    console.print(table)


def _period(report: QualityReport) -> str:
    first, last = report.days or (NOTHING, NOTHING)
    return f"{shown(first)} to {shown(last)}"


def _table(title: str, heading: str, rows: Mapping[str, Figures], overall: Figures) -> Table:
    table = Table(title=title, box=None, pad_edge=False)
    table.add_column(heading, overflow="fold")
    headings = ("decisions", *OUTCOMES, *(figure.title.lower() for figure in FIGURES))
    for name in headings:
        table.add_column(name, justify="right")
    for name, figures in rows.items():
        table.add_row(shown(name), *_cells(figures))
    table.add_row("[bold]overall[/]", *_cells(overall))
    return table


def _cells(figures: Figures) -> Iterable[str]:
    yield str(figures.decisions)
    yield from (str(figures.outcomes[outcome]) for outcome in OUTCOMES)
    yield from (percent(figures.rates[figure.name]) for figure in FIGURES)


def _coverage(tiers: Iterable[Coverage]) -> Table:
    table = Table(title="Coverage: reported items with a decision", box=None, pad_edge=False)
    for name in ("tier", "reported", "covered", "coverage", "target"):
        table.add_column(name, justify="left" if name == "tier" else "right")
    for one in tiers:
        target = NOTHING if one.target is None else f"{one.target:.0%}"
        table.add_row(one.tier, str(one.rate.whole), str(one.rate.part), percent(one.rate), target)
    return table


def _line(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)
