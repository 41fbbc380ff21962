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

_EVERYTHING = "everything"


def print_report(report: QualityReport) -> None:
    """A table by class, one by day, one of the tiers' coverage; then what needs a person."""
    if not report.overall.decisions:
        _line("[yellow]No decision on a retrieved item in this period.[/]")
    else:
        _line(f"[bold]Quality posture[/], {_period(report)}, {shown(report.scope.tenant or 'every tenant')}")
        for heading, rows in (("class", report.by_class), ("day", report.by_day)):
            console.print(_outcomes(f"Outcomes by {heading}", heading, rows, report.overall))
            console.print(_rates(f"Rates by {heading}", heading, rows, report.overall))
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
    for alarm in alarms:
        colour = "bold red" if alarm["severity"] == "critical" else "yellow"
        told = f"{alarm['subject']}, to {alarm['recipient']}: {alarm['message']}"
        _line(f"[{colour}]alarm[/] {shown(alarm['raised_at'])} {shown(told)}")


def _period(report: QualityReport) -> str:
    first, last = report.days or (NOTHING, NOTHING)
    return f"{shown(first)} to {shown(last)}"


def _outcomes(title: str, heading: str, rows: Mapping[str, Figures], overall: Figures) -> Table:
    table = _headed(title, (heading, "decisions", *OUTCOMES))
    for name, one in [*rows.items(), (_EVERYTHING, overall)]:
        counts = (str(one.outcomes[outcome]) for outcome in OUTCOMES)
        table.add_row(shown(name), str(one.decisions), *counts)
    return table


def _rates(title: str, heading: str, rows: Mapping[str, Figures], overall: Figures) -> Table:
    table = _headed(title, (heading, *(figure.title.lower() for figure in FIGURES)))
    for name, one in [*rows.items(), (_EVERYTHING, overall)]:
        table.add_row(shown(name), *(percent(one.rates[figure.name]) for figure in FIGURES))
    return table


def _headed(title: str, headings: Sequence[str]) -> Table:
    """The first column is words, the others are numbers."""
    table = Table(title=title, box=None, pad_edge=False)
    for number, name in enumerate(headings):
        words = name.replace(" ", "\n")  # one under the other, or the numbers do not fit on a terminal
        table.add_column(words, overflow="fold", justify="right" if number else "left")
    return table


def _coverage(tiers: Iterable[Coverage]) -> Table:
    headings = ("tier", "reported", "covered", "coverage", "target")
    table = _headed("Coverage: reported items with a decision", headings)
    for one in tiers:
        target = NOTHING if one.target is None else f"{one.target:.0%}"
        table.add_row(one.tier, str(one.rate.whole), str(one.rate.part), percent(one.rate), target)
    return table


def _line(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)
