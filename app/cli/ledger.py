"""`sluice ledger verify | export`: is the ledger what the workers wrote?"""

from __future__ import annotations

import asyncio
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from app.adapters.kafka_read import KafkaUnreachable, UnknownTopics, open_reader
from app.cli.ledger_report import print_report, report_fields
from app.cli.output import WELL, WRONG, errors, print_json, settings_or_stop, stop, stop_unknown_topics
from app.verifier.export import NotAnExport, from_lines, to_line
from app.verifier.located import Located
from app.verifier.verify import Verifier, verify
from topics.catalog import CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from app.adapters.kafka_read import StoredRecord
    from app.settings import KafkaSettings
    from app.verifier.findings import Report

cli = typer.Typer(name="ledger", no_args_is_help=True, help="Verify the ledger, or export it for an auditor.")


@cli.command(name="verify")
def verify_command(
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="An export instead of the broker.")
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Check every ledger record: hashes, links, numbers, places, ids.

    Reads the ledger's topics as committed, up to their ends at the start.
    Shares no code with the worker.

    Exit codes: 0 intact, 1 something is wrong (each finding says what and
    where), 2 could not be read.

    What a chain alone cannot see: a cut-off tail, and a chain recomputed
    whole by someone who may write to the topics. Compare the printed heads
    with heads that you noted earlier.

    Example: sluice ledger verify --json | jq .findings
    """
    report = _of_broker() if from_ is None else _of_file(from_)
    if json:
        print_json(report_fields(report))
    else:
        print_report(report)
    raise typer.Exit(WELL if report.intact else WRONG)


@cli.command(name="export")
def export_command(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
) -> None:
    """Write every ledger record to FILE, to verify without the broker.

    One JSON object a line: topic, partition, offset, timestamp (ms), key
    (base64) and value (the record's text).

    Example: sluice ledger export ledger.jsonl && sluice ledger verify --from ledger.jsonl
    """
    try:
        with file.open("x", encoding="utf-8") as out:
            count = _over_broker(lambda record: _write(out.write, record))
    except OSError as error:
        stop(f"cannot write {file}: {error.strerror}")
    errors.print(f"{count} records written to {file}", soft_wrap=True)


def _write(write: Callable[[str], int], record: StoredRecord) -> None:
    write(to_line(_located(record), record.timestamp_ms) + "\n")


def _of_file(file: Path) -> Report:
    try:
        with file.open("rb") as lines:
            return verify(from_lines(lines))
    except (OSError, NotAnExport) as error:
        stop(f"cannot read {file}: {error}")


def _of_broker() -> Report:
    verifier = Verifier()
    _over_broker(lambda record: verifier.add(_located(record)))
    return verifier.report()


def _over_broker(take: Callable[[StoredRecord], None]) -> int:
    kafka = settings_or_stop().kafka
    return _or_stop(_each(kafka, take))


def _or_stop(reading: Coroutine[None, None, int]) -> int:
    try:
        return asyncio.run(reading)
    except UnknownTopics as error:
        stop_unknown_topics(error)
    except KafkaUnreachable as error:
        stop(f"cannot read the ledger: {error}")


async def _each(kafka: KafkaSettings, take: Callable[[StoredRecord], None]) -> int:
    names = [f"{kafka.topic_prefix}{topic.name}" for topic in CATALOG if topic.ledger]
    count = 0
    async with open_reader(kafka.bootstrap_servers, names, "beginning") as reader:
        async for batch in reader.to_end():
            for record in batch:
                take(record)
            count += len(batch)
    return count


def _located(record: StoredRecord) -> Located:
    return Located(record.topic, record.partition, record.offset, record.key, record.value)
