"""`sluice quarantine stats`: seed 003's statistics, as the workers keep them and as the ledger says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import WELL, WRONG, print_json
from app.cli.quarantine_counts import By, Counted, Recounted, counted_fields, print_counted
from app.cli.quarantine_read import asked, connected
from app.core.memory.recount import behind, differences
from app.stream.live_statistics import live_statistics

if TYPE_CHECKING:
    from app.adapters.kafka_quarantine import KafkaQuarantine
    from app.core.memory.live_counts import LiveCounts


def stats(
    *,
    by: Annotated[By, typer.Option(help="A row for each.")] = By.tenant,
    recount: Annotated[
        bool, typer.Option("--recount", help="Count the ledger's records too, and compare.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")] = False,
) -> None:
    """Show how many writes were decided how, and how many wait.

    The numbers are those that the workers keep, from the sessions'
    changelog. A repeated write counts nowhere. --recount reads
    gate.memory.decisions and gate.quarantine up to the same moment of each
    partition, so that it may run while workers decide.

    Exit codes: 0 shown, and equal if recounted; 1 the recount differs; 2
    could not read.
    """
    counted = asked(_counted(connected(), recount=recount))
    if as_json:
        print_json(counted_fields(counted, by))
    else:
        print_counted(counted, by)
    raise typer.Exit(WELL if counted.recounted is None or counted.recounted.equal else WRONG)


async def _counted(kafka: KafkaQuarantine, *, recount: bool) -> Counted:
    live = await live_statistics(kafka.changelog())
    return Counted(live.counts, await _recounted(kafka, live) if recount else None)


async def _recounted(kafka: KafkaQuarantine, live: LiveCounts) -> Recounted:
    """What the ledger has beyond the state was written since: if so, the state has it by now too."""
    anew = await kafka.recount(live.sequences)
    lost = behind((await live_statistics(kafka.changelog())).sequences, anew.beyond) if anew.beyond else []
    return Recounted(anew.counts, differences(live.counts, anew.counts), lost)
