"""`sluice show ID`: one decision's whole story, why first."""

from __future__ import annotations

import math
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.adapters.kafka.kafka_ledger import locate_record, read_ledger
from sluice.cli.ledger.show_story import print_story
from sluice.cli.output import (
    WRONG,
    Since,
    Until,
    clean,
    errors,
    parse_moment,
    print_json,
    read_clock_ms,
    require_broker,
    require_settings,
    stop,
)
from sluice.core.foundation.chain import hash_holds
from sluice.offline.story import Followed, NamedRecords
from sluice.text.plurals import count_noun
from sluice.verifier.export import NotAnExport, read_lines
from sluice_topics.json_text import Unreadable, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.adapters.kafka.kafka_read import Start
    from sluice.core.rerun.walk import Place
    from sluice.offline.story import Story, StoryEvent
    from sluice.verifier.export import Located

    Read = Callable[[Callable[[Located], None]], None]

MOST = 5
"""Stories on the screen; `--json` has all."""


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="show")(show_command)


def show_command(
    an_id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The id of a decision, an action, a write, a request, an item or an escalation.",
        ),
    ],
    *,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="An export instead of the broker.")
    ] = None,
    since: Since = None,
    until: Until = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object with every record whole.")] = False,
) -> None:
    """Show one decision's whole story, the reason first.

    It shows the decision and the reason, each gate with its evidence, the
    session's totals before and after, what followed (escalation,
    settlement, quarantine), the policy used, and the place in the ledger.
    It reads the ledger from its beginning, or what --since and --until
    bound. With an export it does not show
    the input.

    Exit codes: 0 shown, 1 no record of the ledger names the id, 2 could
    not read.

    Example: sluice show a-17
    """
    span = parse_moment(since, "--since"), parse_moment(until, "--until")
    read = _read_broker(*span) if from_ is None else _read_file(from_, *span)
    named = NamedRecords(an_id)
    read(named.take)
    if not named.events:
        stop(
            f"no record of the ledger names {an_id}: nothing was decided on it, or its record is no longer "
            "kept. `sluice watch gate.dead_letters --from-beginning` shows what could not be read.",
            WRONG,
        )
    followed = Followed([event for event in named.events if event.is_decision] or named.events)
    read(followed.take)
    stories = followed.list_stories()
    inputs = {} if from_ is not None else _fetch_inputs(stories)
    if json:
        print_json(
            {"stories": [_build_fields(story, inputs.get(_read_place(story.decision))) for story in stories]}
        )
    else:
        _print(stories, inputs)


def _print(stories: list[Story], inputs: dict[Place, Any]) -> None:
    now = read_clock_ms()
    for number, story in enumerate(stories[-MOST:]):
        if number:
            typer.echo()
        print_story(story, inputs.get(_read_place(story.decision)), now)
    if len(stories) > MOST:
        errors.print(
            f"The last {MOST} of {count_noun(len(stories), 'decision')} that it names; --json has all."
        )


def _build_fields(story: Story, input_fields: object) -> dict[str, Any]:
    decision = story.decision
    return {
        "topic": decision.topic,
        "partition": decision.partition,
        "offset": decision.offset,
        "hash_holds": hash_holds(decision.fields),
        "record": decision.fields,
        "input": input_fields,
        "followed": [
            {"topic": event.topic, "offset": event.offset, "record": event.fields} for event in story.followed
        ],
    }


def _read_place(decision: StoryEvent) -> Place:
    source = decision.fields.get("input")
    if not isinstance(source, dict):
        return "", 0, 0
    return str(source.get("topic")), int(source.get("partition", 0)), int(source.get("offset", 0))


def _fetch_inputs(stories: list[Story]) -> dict[Place, Any]:
    """The inputs that are still there, parsed; None where they are not JSON."""
    if all(story.decision.fields.get("input") is None for story in stories):
        return {}
    kafka = require_settings().kafka
    return require_broker(_fetch(KafkaEvidence(kafka.connection, kafka.topic_prefix), stories))


async def _fetch(kafka: KafkaEvidence, stories: list[Story]) -> dict[Place, Any]:
    async with kafka.open_fetcher() as places:
        inputs = await places.fetch_inputs({_read_place(story.decision) for story in stories})
    read = {coordinates: parse(input_record.value or b"") for coordinates, input_record in inputs.items()}
    return {
        coordinates: None if isinstance(fields, Unreadable) else fields
        for coordinates, fields in read.items()
    }


def _read_broker(since_ms: int | None, until_ms: int | None) -> Read:
    kafka = require_settings().kafka
    begin: Start | int = "beginning" if since_ms is None else since_ms
    end = None if until_ms is None else min(until_ms, read_clock_ms())

    def read(take: Callable[[Located], None]) -> None:
        servers, prefix = kafka.connection, kafka.topic_prefix
        require_broker(read_ledger(servers, prefix, lambda record: take(locate_record(record)), begin, end))

    return read


def _read_file(file: Path, since_ms: int | None, until_ms: int | None) -> Read:
    def read(take: Callable[[Located], None]) -> None:
        try:
            with file.open("rb") as lines:
                for located in read_lines(lines):
                    at_ms = located.timestamp_ms
                    if at_ms is None or (since_ms or 0) <= at_ms < (until_ms or math.inf):
                        take(located)
        except (OSError, NotAnExport) as error:
            stop(f"cannot read {clean(file)}: {error}")

    return read
