"""`sluice rerun`: decide again what was decided, and say whether it comes out the same."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.adapters.kafka_evidence import KafkaEvidence
from app.adapters.kafka_read import KafkaUnreachable, UnknownTopics
from app.adapters.kafka_rerun import rerun_all, rerun_ids, rerun_sample
from app.cli.output import WELL, WRONG, print_json, settings_or_stop, stop, stop_unknown_topics
from app.cli.rerun_report import Tally, print_reruns
from app.core.actions.stages import shipped_stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


GONE = 3


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="rerun")(rerun_command)


def rerun_command(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids of verdicts, escalations, memories, decisions on items."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every decision of the ledger.")] = False,
    sample: Annotated[int | None, typer.Option(min=1, help="So many decisions of the ledger.")] = None,
    seed: Annotated[int, typer.Option(help="Which ones --sample takes.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Execute decisions again, and compare field by field.

    Decisions are verdicts on actions, decisions on memory writes and on
    retrieved items. The input is read by its coordinates, bundles and
    registry entries by the hashes in the record. Session, source, parents
    and provenance are what it says of them, and models are not asked:
    their recorded answers count. The same code then decides again.
    Nothing is written.

    Identical means every field but the durations and the place in the
    ledger. A difference names the field with both values. Evidence gone
    names what is no longer there: the input after its retention, or a
    gate of one installation that this command does not have.

    Exit codes: 0 all identical, 1 differences, 3 evidence gone and no
    difference, 2 could not.

    Example: sluice rerun verdict:gate.actions.proposed:3:17
    """
    if [bool(ids), every, sample is not None].count(True) != 1:
        stop("give ids, or --all, or --sample N")
    kafka = settings_or_stop().kafka
    source = KafkaEvidence(kafka.bootstrap_servers, kafka.topic_prefix)
    tally = Tally(keep_identical=bool(ids))
    _run(lambda: _reruns(source, tally, ids or [], sample, seed))
    if json:
        print_json(_fields(tally))
    else:
        print_reruns(tally)
    if tally.counts["different"]:
        raise typer.Exit(WRONG)
    raise typer.Exit(GONE if tally.counts["evidence_gone"] else WELL)


async def _reruns(source: KafkaEvidence, tally: Tally, ids: list[str], sample: int | None, seed: int) -> None:
    if ids:
        tally.take(await rerun_ids(source, shipped_stage, ids))
    elif sample is not None:
        tally.take(await rerun_sample(source, shipped_stage, sample, seed))
    else:
        async for one in rerun_all(source, shipped_stage):
            tally.take([one])


def _run(reading: Callable[[], Awaitable[None]]) -> None:
    try:
        asyncio.run(_awaited(reading))
    except UnknownTopics as error:
        stop_unknown_topics(error)
    except (KafkaUnreachable, ValueError) as error:
        stop(str(error))


async def _awaited(reading: Callable[[], Awaitable[None]]) -> None:
    await reading()


def _fields(tally: Tally) -> dict[str, Any]:
    listed = [{"status": one.status, **asdict(one)} for one in tally.kept]
    counts = {str(name): count for name, count in tally.counts.items()}
    return {**counts, "by_kind": tally.by_kind, "reruns": listed}
