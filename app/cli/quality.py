"""`sluice quality`: what the ledger says of retrievals, and the rollout of a class."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from app.cli.output import WELL, WRONG, errors, print_json, shown, stop
from app.cli.quality_override import override
from app.cli.quality_page.page import page
from app.cli.quality_promote import promote
from app.cli.quality_read import From, day_or_stop, read_or_stop
from app.cli.quality_tables import print_alarms, print_report
from app.core.clock import rfc3339
from app.core.retrieval.ledger_values import ALARM, DECISION, REPORTED
from app.core.retrieval.report import quality_report
from app.core.retrieval.report_tally import QualityTally, Scope
from topics.catalog import ALARMS, QUALITY_DECISIONS, SESSION_EVENTS

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

    Outcomes, stale retrievals, provenance failures, false denies under
    flag-only, and per tier the share of the items that stores say they
    returned for which there is a decision. From the ledger alone.

    Exit codes: 0 shown; 1 shown, and coverage of a tier is below its
    target; 2 could not.

    Example: sluice quality report --since 2026-01-01 --html report.html
    """
    tally = QualityTally(Scope(day_or_stop(since), day_or_stop(until), tenant))
    sinks = {DECISION: tally.decision, REPORTED: tally.report, ALARM: tally.alarm}
    read_or_stop((QUALITY_DECISIONS, SESSION_EVENTS, ALARMS), sinks, from_)
    found = quality_report(tally)
    if html is not None:
        _write(html, page(found, rfc3339(time.time_ns() // 1_000_000)))
    if as_json:
        print_json(found.fields())
    else:
        print_report(found)
    raise typer.Exit(WRONG if any(one.short for one in found.coverage) else WELL)


@cli.command()
def alarms(from_: From = None, as_json: AsJson = False) -> None:
    """Show the alarms of the ledger: flag-only that outlived its window.

    The newest of each quality bundle and class.

    Exit codes: 0 shown, also when there is none; 2 could not read.
    """
    tally = QualityTally()
    read_or_stop((ALARMS,), {ALARM: tally.alarm}, from_)
    found = quality_report(tally).alarms
    if as_json:
        print_json(list(found))
    else:
        print_alarms(found)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        stop(f"cannot write {file}: {error.strerror}")
    errors.print(f"written: {shown(file)}", soft_wrap=True, highlight=False)
