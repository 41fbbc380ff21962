"""The quality posture after a demo, from the ledger alone; `sluice quality report` shows more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Column

from app.cli.demo.demo_cells import number, table
from app.cli.output import shown
from app.cli.quality.percent import percent
from app.core.reports.report_figures import CONFIDENCE, FALSE_DENY, OUTCOMES, PROVENANCE, STALE

if TYPE_CHECKING:
    from rich.table import Table

    from app.core.reports.report import QualityReport

_EVERYTHING = "all"
_FIGURES = {
    "stale": STALE,
    "provenance": PROVENANCE,
    "unsure": CONFIDENCE,
    "false deny": FALSE_DENY,
}


def posture_table(quality: QualityReport) -> Table:
    """Outcomes and rates by content class."""
    rates = [Column(name, justify="right", overflow="fold") for name in _FIGURES]
    made = table(
        "Quality report, from the ledger alone",
        Column("class", no_wrap=True),
        number("items"),
        *(number(outcome) for outcome in OUTCOMES),
        *rates,
    )
    for name, one in [*quality.by_class.items(), (_EVERYTHING, quality.overall)]:
        outcomes = (str(one.outcomes[outcome]) for outcome in OUTCOMES)
        shares = (percent(one.rates[figure.name]) for figure in _FIGURES.values())
        made.add_row(shown(name), str(one.decisions), *outcomes, *shares)
    made.caption = (
        "stale: shown although too old; false deny: what enforcing would deny of a class in flag-only"
    )
    return made


def coverage_table(quality: QualityReport) -> Table:
    """Of what stores say that they returned, how much was decided on; and what an operator is told."""
    made = table(
        "Coverage: what the stores say they returned",
        "tier",
        number("returned"),
        number("decided"),
        number("coverage"),
        number("target"),
        "",
    )
    for one in quality.coverage:
        target = "-" if one.target is None else f"{one.target:.0%}"
        mark = "[bold red]below its target[/]" if one.short else ""
        counts = str(one.rate.whole), str(one.rate.part)
        made.add_row(one.tier, *counts, percent(one.rate), target, mark)
    return made


def alarms_table(quality: QualityReport) -> Table:
    """What an operator must see."""
    made = table("Alarms", "to", "subject", Column("message", overflow="fold"))
    for alarm in quality.alarms:
        made.add_row(*(shown(alarm[name]) for name in ("recipient", "subject", "message")))
    return made
