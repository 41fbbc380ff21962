"""`sluice watch TOPIC…`: follow topics as they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from sluice.adapters.kafka.kafka_read import open_reader
from sluice.cli.ledger.record_line import (
    build_json,
    read_fields,
    read_line,
    write_columns,
    write_heading,
    write_line,
)
from sluice.cli.output import (
    Since,
    Until,
    console,
    errors,
    parse_moment,
    print_json,
    require_broker,
    require_settings,
    stop,
)
from sluice_topics.catalog import CATALOG

if TYPE_CHECKING:
    from sluice.adapters.kafka.kafka_read import Start, StoredRecord
    from sluice.settings.kafka import KafkaSettings

WATCHABLE = tuple(topic.name for topic in CATALOG if topic.direction not in ("internal", "keys"))


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="watch")(watch_command)


def watch_command(  # noqa: PLR0913 - an option each
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help=f"Of {', '.join(WATCHABLE)}.")],
    *,
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Begin with the oldest record instead of the next new one."),
    ] = False,
    since: Since = None,
    until: Until = None,
    max_: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after N records.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="Stop after S seconds without a record.")
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Only this agent's.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only this session's.")] = None,
    verdict: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Only decisions with this result: denied, needs_human, flag …"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per record, cut at 16 KiB.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="With --json: never cut.")] = False,
) -> None:
    """Show records as they are committed, one per line.

    A line has time, partition/offset, topic, session, action, verdict, gate
    and reason; for a retrieved item its outcome, flags and reason; for a
    served record the counts, never a body. On a terminal the lines are in
    columns and may be cut; `sluice show ID` has the whole. Records of
    rolled-back transactions are never shown. Times are the broker's, in
    UTC. Ctrl-C stops; with --until it ends when all partitions have
    passed that time.

    Exit codes: 0 stopped as asked, 2 could not read, or no such topic.

    Example: sluice watch gate.verdicts gate.escalations --verdict denied
    """
    if unknown := [name for name in topics if name not in WATCHABLE]:
        stop(f"no such topic: {', '.join(unknown)}; there are {', '.join(WATCHABLE)}")
    kafka = require_settings().kafka
    idle_ms = None if timeout is None else int(timeout * 1000)
    start, until_ms = _require_span(since, until, from_beginning=from_beginning, idle=timeout is not None)
    record_filter = RecordFilter(agent, session, verdict)
    shower = _Shower(
        kafka.topic_prefix, max_, record_filter, "whole" if json and whole else "json" if json else "lines"
    )
    try:
        require_broker(_watch(kafka, topics, start, shower, idle_ms, until_ms), "cannot watch: {}")
    except KeyboardInterrupt:
        return


class RecordFilter(NamedTuple):
    """Which records are shown; None: whatever it is."""

    agent: str | None
    session: str | None
    verdict: str | None

    def is_match(self, record: StoredRecord, topic: str) -> bool:
        """Whether the record is one of them."""
        fields = read_fields(record)
        return (
            self.agent in (None, fields.get("agent_id"))
            and self.session in (None, fields.get("session_id"))
            and self.verdict
            in (None, read_line(record, topic).word, fields.get("verdict"), fields.get("outcome"))
        )


_EVERYTHING = RecordFilter(None, None, None)


class _Shower:
    """Prints the chosen records until it has printed `most`."""

    def __init__(
        self,
        prefix: str,
        most: int | None,
        record_filter: RecordFilter,
        form: Literal["lines", "json", "whole"],
    ) -> None:
        self._prefix = prefix
        self._left = most
        self._filter = record_filter
        self._form = form

    def show(self, batch: list[StoredRecord]) -> bool:
        """Print them, and say whether more may come."""
        chosen = [
            stored_record
            for stored_record in batch
            if self._filter == _EVERYTHING
            or self._filter.is_match(stored_record, self._find_topic(stored_record))
        ]
        for record in chosen[: self._left]:
            self._print(record, self._find_topic(record))
        if self._left is not None:
            self._left -= len(chosen[: self._left])
        return self._left is None or self._left > 0

    def begin(self) -> None:
        """Name the columns, where there are any."""
        if self._form == "lines" and console.is_terminal:
            console.print(write_heading(console.width))

    def _find_topic(self, record: StoredRecord) -> str:
        return record.topic.removeprefix(self._prefix)

    def _print(self, record: StoredRecord, topic: str) -> None:
        if self._form != "lines":
            print_json(build_json(record, topic, whole=self._form == "whole"))
        elif console.is_terminal:
            console.print(write_columns(record, topic, console.width))
        else:
            console.print(write_line(record, topic), soft_wrap=True, highlight=False)


def _require_span(
    since: str | None, until: str | None, *, from_beginning: bool, idle: bool
) -> tuple[Start | int, int | None]:
    """Return where to start, and the time before which to end."""
    if since is not None and from_beginning:
        stop("--since and --from-beginning both say where to begin: give one of them")
    if until is not None and idle:
        stop("--until and --timeout both say when to stop: give one of them")
    since_ms = parse_moment(since, "--since")
    start: Start | int = "beginning" if from_beginning else "end" if since_ms is None else since_ms
    return start, parse_moment(until, "--until")


async def _watch(
    kafka: KafkaSettings,
    topics: list[str],
    start: Start | int,
    shower: _Shower,
    idle_ms: int | None,
    until_ms: int | None,
) -> None:
    names = [f"{kafka.topic_prefix}{name}" for name in topics]
    async with open_reader(kafka.connection, names, start) as reader:
        errors.print(f"[dim]watching {', '.join(topics)}; Ctrl-C stops[/]", soft_wrap=True)
        shower.begin()
        async for batch in reader.follow(idle_ms) if until_ms is None else reader.read_to_time(until_ms):
            if not shower.show(batch):
                return
