"""`sluice export`: decisions as events for a SIEM, followed as they are committed."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sluice.cli.output import errors, require_record_proofs, require_settings, stop
from sluice.offline.ocsf_events import OCSF_VERSION, TOPICS, build_event
from sluice.settings.reader import list_real_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.adapters.kafka.kafka_groups import KafkaLedgerGroup
    from sluice.notify.backlog import CommittedEvent
    from sluice.settings.reader import Settings

WAIT_S = 0.5
DEFAULT_LOOK_BACK_S = 3600.0


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="export")(export_command)


def export_command(
    format_: Annotated[
        Literal["ocsf"], typer.Option("--format", help=f"ocsf: OCSF {OCSF_VERSION}, API Activity.")
    ] = "ocsf",
    group: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Whose place is kept: the next export of this name goes on where the last one ended.",
        ),
    ] = "siem",
    look_back: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="Seconds ago at which a name without a place begins."),
    ] = DEFAULT_LOOK_BACK_S,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="Stop after S seconds without a decision.")
    ] = None,
) -> None:
    """Write decisions as JSON lines for a SIEM, as they are committed.

    One OCSF event a line on standard output, of verdicts, decisions on
    memory writes and on retrieved items: who, which session, what came
    of it, under which policy, and why. No event has content. The place is
    kept after lines are written: a restart may write some again (the
    event's metadata.uid is the same), and leaves none out. Ctrl-C stops.

    Exit codes: 0 stopped as asked, 2 a setting is wrong, or the broker
    does not answer.

    Example: sluice export | vector --config siem.toml
    """
    from aiokafka.errors import KafkaError  # noqa: PLC0415 - a while to import

    del format_
    settings = require_settings()
    try:
        asyncio.run(_export(build_group(settings, group, look_back), timeout))
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        stop("nobody reads the events any more")
    except KafkaError as error:
        stop(f"cannot export: {error}")


def build_group(settings: Settings, name: str, look_back_s: float) -> KafkaLedgerGroup:
    """The reader of all decisions, not connected."""
    from sluice.adapters.kafka.kafka_groups import KafkaLedgerGroup  # noqa: PLC0415 - as above

    names = list_real_names(settings)
    return KafkaLedgerGroup(
        settings.kafka.connection,
        f"{settings.worker.app_id}-export-{name}",
        {names[topic]: topic for topic in TOPICS},
        look_back_s,
        require_record_proofs(settings),
    )


async def _export(group: KafkaLedgerGroup, timeout_s: float | None) -> None:
    """Until nothing came for the time-out; None: for ever."""
    try:
        await group.connect()
        last = time.monotonic()
        while timeout_s is None or time.monotonic() - last < timeout_s:
            await group.read_changes()
            events, positions = await group.read_some(WAIT_S, paused=False)
            if events:
                last = time.monotonic()
                _write(events)
            await group.commit(positions)
    finally:
        await group.close()


def _write(events: Sequence[CommittedEvent]) -> None:
    """A record that is no decision is left out, and said. All in ASCII: an id cannot hold what ends a line or
    steers a terminal."""
    lines: list[str] = []
    for event in events:
        topic, partition = event.part
        try:
            lines.append(
                json.dumps(build_event(topic, event.fields, event.timestamp_ms), allow_nan=False) + "\n"
            )
        except (KeyError, TypeError, ValueError):
            errors.print(f"{topic}:{partition}:{event.offset} is no decision: it is left out")
    sys.stdout.write("".join(lines))
    sys.stdout.flush()
