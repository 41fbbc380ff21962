"""`sluice watch TOPIC…`: follow topics as they are committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from app.adapters.kafka_read import KafkaUnreachable, UnknownTopics, open_reader
from app.cli.output import console, errors, print_json, settings_or_stop, stop, stop_unknown_topics
from app.cli.record_line import as_json, as_line
from topics.catalog import CATALOG

if TYPE_CHECKING:
    from app.adapters.kafka_read import Start, StoredRecord
    from app.settings import KafkaSettings

WATCHABLE = tuple(topic.name for topic in CATALOG if topic.direction != "internal")


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="watch")(watch_command)


def watch_command(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help=f"Of {', '.join(WATCHABLE)}.")],
    *,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin with what is there, not with what comes.")
    ] = False,
    max_: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after N records.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="Stop when none came for S seconds.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per record.")] = False,
) -> None:
    """Show records as they are committed, one a line.

    Time, partition/offset, topic, session, action, verdict, gate and
    reason; of a retrieved item its outcome, flags and reason, of what was
    served the counts and never a body. A record of a rolled-back
    transaction is never shown. Times are UTC, the broker's. Ctrl-C stops.

    Exit codes: 0 stopped as asked, 2 could not read, or no such topic.

    Example: sluice watch gate.verdicts gate.escalations
    """
    if unknown := [name for name in topics if name not in WATCHABLE]:
        stop(f"no such topic: {', '.join(unknown)}; there are {', '.join(WATCHABLE)}")
    kafka = settings_or_stop().kafka
    idle_ms = None if timeout is None else int(timeout * 1000)
    start: Start = "beginning" if from_beginning else "end"
    try:
        asyncio.run(_watch(kafka, topics, start, _Shower(kafka.topic_prefix, max_, json=json), idle_ms))
    except KeyboardInterrupt:
        return
    except UnknownTopics as error:
        stop_unknown_topics(error)
    except KafkaUnreachable as error:
        stop(f"cannot watch: {error}")


class _Shower:
    """Prints records until it has printed `most`."""

    def __init__(self, prefix: str, most: int | None, *, json: bool) -> None:
        self._prefix = prefix
        self._left = most
        self._json = json

    def show(self, batch: list[StoredRecord]) -> bool:
        """Print them, and say whether more may come."""
        wanted = batch if self._left is None else batch[: self._left]
        for record in wanted:
            self._print(record)
        if self._left is not None:
            self._left -= len(wanted)
        return self._left is None or self._left > 0

    def _print(self, record: StoredRecord) -> None:
        topic = record.topic.removeprefix(self._prefix)
        if self._json:
            print_json(as_json(record, topic))
        else:
            console.print(as_line(record, topic), soft_wrap=True, highlight=False)


async def _watch(
    kafka: KafkaSettings, topics: list[str], start: Start, shower: _Shower, idle_ms: int | None
) -> None:
    names = [f"{kafka.topic_prefix}{name}" for name in topics]
    async with open_reader(kafka.bootstrap_servers, names, start) as reader:
        errors.print(f"[dim]watching {', '.join(topics)}; Ctrl-C stops[/]", soft_wrap=True)
        async for batch in reader.follow(idle_ms):
            if not shower.show(batch):
                return
