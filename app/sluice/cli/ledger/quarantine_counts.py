"""`sluice quarantine stats`: the memory gate in numbers, on the screen and as JSON, by tenant or by agent."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluice.cli.ledger.pending_subjects import connect, run_question
from sluice.cli.output import WELL, WRONG, clean, print_json, print_parts
from sluice.cli.tables import align_right, build_table, fold
from sluice.core.reports.memory_recount import compare_statistics, find_behind, sum_by_group
from sluice.core.state.statistics import NOTHING, Statistics
from sluice.stream.engine.outbox import live_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine
    from sluice.core.reports.memory_recount import Behind, Counts, LiveCounts, StatisticsDifference
    from sluice.core.state.statistics import Whose


HEADINGS = tuple(NOTHING.fields())


class By(StrEnum):
    """Whose numbers stand in one row."""

    tenant = "tenant"
    agent = "agent"


class LedgerCounts(NamedTuple):
    """The ledger's own numbers, and where the workers' are others."""

    counts: Counts
    differences: list[StatisticsDifference]
    behind: list[Behind]

    @property
    def equal(self) -> bool:
        """Whether the workers keep what the ledger says."""
        return not (self.differences or self.behind)


class GateCounts(NamedTuple):
    """`recounted` None: no recount was asked for."""

    live: Counts
    recounted: LedgerCounts | None = None

    @property
    def overall(self) -> Statistics:
        """Over all partitions, tenants and agents, as the workers keep them."""
        return _sum_overall(self.live)

    @property
    def equal(self) -> bool:
        """Whether no recount differs from what the workers keep."""
        return self.recounted is None or self.recounted.equal


def _name_row(by: By, whose: Whose) -> tuple[str, ...]:
    return (whose.tenant,) if by is By.tenant else (whose.tenant, whose.agent)


def _group_rows(counts: Counts, by: By) -> dict[tuple[str, ...], Statistics]:
    return dict(sorted(sum_by_group(counts, lambda whose: _name_row(by, whose)).items()))


def _sum_overall(counts: Counts) -> Statistics:
    return sum_by_group(counts, lambda _: None).get(None, NOTHING)


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
    return {"rows": rows, "overall": _sum_overall(counts).fields()}


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
    rows.append(("[bold]overall[/]", *[""] * (len(names) - 1), *map(str, _sum_overall(counts))))
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


async def count_gate(kafka: KafkaQuarantine, *, recount: bool) -> GateCounts:
    """Read from the broker, with `recount` the ledger too. Raises KafkaUnreachable and UnknownTopics."""
    live = await live_statistics(kafka.read_changelog())
    return GateCounts(live.counts, await _recompute(kafka, live) if recount else None)


async def _recompute(kafka: KafkaQuarantine, live: LiveCounts) -> LedgerCounts:
    """What the ledger has beyond the state was written since: if so, the state has it by now too."""
    anew = await kafka.recompute(live.sequences)
    lost = (
        find_behind((await live_statistics(kafka.read_changelog())).sequences, anew.beyond)
        if anew.beyond
        else []
    )
    return LedgerCounts(anew.counts, compare_statistics(live.counts, anew.counts), lost)
