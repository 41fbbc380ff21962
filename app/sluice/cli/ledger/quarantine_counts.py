"""`sluice quarantine stats`: the memory gate in numbers, on the screen and as JSON, by tenant or by agent."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.bootstrap.ledger_reading import count_gate, sum_overall
from sluice.cli.ledger.pending_subjects import connect, run_question
from sluice.cli.output import WELL, WRONG, clean, print_json, print_parts
from sluice.cli.tables import align_right, build_table, fold
from sluice.core.reports.memory_recount import sum_by_group
from sluice.core.state.statistics import NOTHING, Statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from sluice.bootstrap.ledger_reading import GateCounts
    from sluice.core.reports.memory_recount import Counts, StatisticsDifference
    from sluice.core.state.statistics import Whose


HEADINGS = tuple(NOTHING.fields())


class By(StrEnum):
    """Whose numbers stand in one row."""

    tenant = "tenant"
    agent = "agent"


def _name_row(by: By, whose: Whose) -> tuple[str, ...]:
    return (whose.tenant,) if by is By.tenant else (whose.tenant, whose.agent)


def _group_rows(counts: Counts, by: By) -> dict[tuple[str, ...], Statistics]:
    return dict(sorted(sum_by_group(counts, lambda whose: _name_row(by, whose)).items()))


def build_counted_fields(counted: GateCounts, by: By) -> dict[str, Any]:
    """Build the JSON: {by, rows, overall}, and {recount, differences, behind} where they were asked for."""
    fields = {"by": by.value, **_build_counts(counted.live, by)}
    if counted.recounted is not None:
        fields["recount"] = _build_counts(counted.recounted.counts, by)
        fields["differences"] = [
            _build_difference(difference) for difference in counted.recounted.differences
        ]
        fields["behind"] = [lag._asdict() for lag in counted.recounted.behind]
    return fields


def _build_difference(difference: StatisticsDifference) -> dict[str, Any]:
    both = {"live": difference.live.fields(), "recounted": difference.recounted.fields()}
    return {"partition": difference.partition, **difference.whose._asdict(), **both}


def _build_counts(counts: Counts, by: By) -> dict[str, Any]:
    names = ("tenant", "agent")
    rows = [
        {**dict(zip(names, name, strict=False)), **statistics.fields()}
        for name, statistics in _group_rows(counts, by).items()
    ]
    return {"rows": rows, "overall": sum_overall(counts).fields()}


def build_counted_parts(counted: GateCounts, by: By) -> Iterator[RenderableType]:
    """A table of each side, and every difference."""
    yield _build_table(counted.live, by, "as the workers keep them")
    if counted.recounted is None:
        return
    yield _build_table(counted.recounted.counts, by, "as the ledger has them")
    for difference in counted.recounted.differences:
        message = f"partition {difference.partition}, {difference.whose.tenant} {difference.whose.agent}"
        live, recounted = tuple(difference.live), tuple(difference.recounted)
        yield f"[bold red]differs:[/] {clean(message)}: live {live}, ledger {recounted}"
    for lost in counted.recounted.behind:
        ends = f"the state ends at sequence {lost.state}, the ledger at {lost.ledger}"
        yield f"[bold red]behind:[/] partition {lost.partition}: {ends}"
    if counted.recounted.equal:
        yield "[green]The recount is equal.[/]"


def _spell_out(name: str) -> str:
    """A wire name as words, which may stand on two lines: "current quarantine size"."""
    return "".join(f" {sign.lower()}" if sign.isupper() else sign for sign in name)


def _build_table(counts: Counts, by: By, title: str) -> Table:
    names = ["tenant", "agent"] if by is By.agent else ["tenant"]
    rows = [
        (*map(clean, whose), *map(str, statistics)) for whose, statistics in _group_rows(counts, by).items()
    ]
    rows.append(("[bold]overall[/]", *[""] * (len(names) - 1), *map(str, sum_overall(counts))))
    return build_table(*fold(*names), *align_right(*map(_spell_out, HEADINGS)), rows=rows, title=title)


def stats(
    *,
    by: Annotated[By, typer.Option(help="One row for each tenant or agent.")] = By.tenant,
    recount: Annotated[
        bool, typer.Option("--recount", help="Count the ledger's records too, and compare.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")] = False,
) -> None:
    """Show how many writes were decided how, and how many wait.

    The workers keep these numbers, and the command reads them from the
    sessions' changelog. Repeated writes do not count. --recount reads
    gate.memory.decisions and gate.quarantine up to the same moment of each
    partition, so it may run while workers decide.

    Exit codes: 0 shown, and equal if recounted; 1 the recount differs; 2
    could not read.
    """
    counted = run_question(count_gate(connect(), recount=recount))
    if as_json:
        print_json(build_counted_fields(counted, by))
    else:
        print_parts(build_counted_parts(counted, by))
    raise typer.Exit(WELL if counted.equal else WRONG)
