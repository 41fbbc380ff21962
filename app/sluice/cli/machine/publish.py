"""`sluice publish FILE`: JSON lines to an input topic."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.adapters.kafka.kafka_publish import publish
from sluice.cli.output import (
    CANNOT_PUBLISH,
    WELL,
    WRONG,
    clean,
    console,
    errors,
    print_json,
    require_audience,
    require_broker,
    require_bytes,
    require_settings,
    stop,
)
from sluice.cli.policy.key_files import require_private_keys
from sluice.client.kafka_writing import Outgoing, PublishedAt
from sluice.client.sender import InputSigner
from sluice.text.plurals import count_noun
from sluice_topics.catalog import ACTIONS, CATALOG
from sluice_topics.headers import make_input_headers
from sluice_topics.record_reading import Unreadable, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice_topics.catalog import Topic
    from sluice_topics.records.base import Record


SOURCE = "/sluice/publish"
"""ce_source of what this command publishes."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a line is no record of the topic."""

    why: Unreadable


@dataclass(frozen=True, slots=True)
class InputLine:
    """One line of the file: its number from 1, and the record in it or why there is none."""

    number: int
    content: Outgoing | Invalid


def split_lines(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that is not blank; a value is the line without its line feed."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def check_lines(
    numbered: Iterable[tuple[int, bytes]], topic: Topic, key_field: str, time: str
) -> Iterator[InputLine]:
    """Each line as the worker will read it. `time` is RFC 3339, for the headers."""
    model = topic.records[0]
    for number, value in numbered:
        record = read(model, value)
        if isinstance(record, Unreadable):
            yield InputLine(number, Invalid(record))
        else:
            headers = make_input_headers(_read_id(record), model.__name__, SOURCE, time)
            yield InputLine(number, Outgoing(read_key_field(value, key_field), value, tuple(headers)))


def read_unchecked(numbered: Iterable[tuple[int, bytes]], key_field: str) -> Iterator[InputLine]:
    """Each line as it is, without headers."""
    for number, value in numbered:
        yield InputLine(number, Outgoing(read_key_field(value, key_field), value, ()))


def sign_line(line: InputLine, topic: str, signer: InputSigner) -> InputLine:
    """A line with its agent's signature; `topic` is the base name. Raises ClientError."""
    if isinstance(line.content, Invalid):
        return line
    session, value = (line.content.key or b"").decode("utf-8", "replace"), line.content.value or b""
    header = signer.make_header(topic, session, value, time.time_ns() // 1_000_000)
    return replace(line, content=replace(line.content, headers=(*line.content.headers, header)))


def read_key_field(value: bytes, field: str) -> bytes | None:
    """The field's value as a key where the line is an object that has it as a string, else None."""
    try:
        fields: Any = json.loads(value)
        key = fields.get(field) if isinstance(fields, dict) else None
        return key.encode() if isinstance(key, str) else None
    except (ValueError, RecursionError):
        return None


def _read_id(record: Record) -> str:
    """An input's first field names it: a test holds that to the table of kinds, which takes long to load."""
    return str(getattr(record, next(iter(type(record).model_fields))))


INPUTS = {topic.name: topic for topic in CATALOG if topic.direction == "in"}


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="publish")(publish_command)


def publish_command(  # noqa: PLR0913 - an option each
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON lines; - is standard input.")],
    *,
    topic: Annotated[str, typer.Option(help=f"One of {', '.join(INPUTS)}.")] = ACTIONS,
    key: Annotated[
        str, typer.Option(help="The field that is the key. A session keeps its order only by session_id.")
    ] = "session_id",
    raw: Annotated[bool, typer.Option("--raw", help="Publish each line as it is, unchecked.")] = False,
    agent_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Private key (PEM) of the agent, if its registry entry has keys."),
    ] = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave invalid lines out instead of publishing nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per line of the file.")] = False,
) -> None:
    """Publish JSON lines to an input topic: each line's bytes are one value.

    The command first reads every line as the worker reads it. It names an
    invalid line with the place of its error, and then publishes nothing
    unless --skip-invalid is given. With --raw it publishes even unreadable
    bytes, so that you can see their dead letters.

    Memory writes, retrievals with their items, stores' reports, outcomes
    and reviews have their own topics: name the topic with --topic.

    With --agent-key the command signs each line for its agent, at the time
    of this machine's clock. The key of each line must be its session.

    Exit codes: 0 all published, 1 some lines are invalid, 2 could not do
    it.

    Example, an action in actions.jsonl:

      {"action_id": "a1", "agent_id": "agent-1", "session_id": "s1",

      "toolName": "db.read", "parameters": {}}

    as one line, then: sluice publish actions.jsonl
    """
    if topic not in INPUTS:
        stop(f"{topic} is no input topic; there are {', '.join(INPUTS)}")
    numbered = split_lines(_read_contents(file))
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines = list(read_unchecked(numbered, key) if raw else check_lines(numbered, INPUTS[topic], key, now))
    wrong = [line for line in lines if isinstance(line.content, Invalid)]
    for line in wrong:
        _tell_invalid(line, json=json)
    if wrong and not skip_invalid:
        lines_are = count_noun(len(lines), "line is", "lines are")
        stop(f"{len(wrong)} of {lines_are} invalid; nothing was published", WRONG)
    if agent_key is not None:
        signer = InputSigner(_read_key(agent_key), require_audience())
        lines = [sign_line(line, topic, signer) for line in lines]
    _publish(lines, INPUTS[topic], json=json)
    raise typer.Exit(WRONG if wrong else WELL)


def _read_contents(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else require_bytes(Path(file))


def _read_key(path: Path) -> bytes:
    """A private key's PEM, which names no part of itself in errors."""
    require_private_keys([path])
    return path.read_bytes()


def _publish(lines: list[InputLine], topic: Topic, *, json: bool) -> None:
    kafka = require_settings().kafka
    ready = [(line.number, line.content) for line in lines if isinstance(line.content, Outgoing)]
    name = topic.real_name(kafka.topic_prefix, "")
    records, most = [outgoing for _, outgoing in ready], topic.max_message_bytes
    publishing = publish(kafka.connection, name, records, max_request_bytes=most)
    placed = require_broker(publishing, CANNOT_PUBLISH)
    if json:
        _print_places([number for number, _ in ready], placed)
    else:
        console.print(_write_summary(placed, name), soft_wrap=True)


def _print_places(numbers: list[int], placed: list[PublishedAt]) -> None:
    for number, at in zip(numbers, placed, strict=True):
        print_json({"line": number, **asdict(at)})


def _write_summary(placed: list[PublishedAt], topic: str) -> str:
    partitions = len({at.partition for at in placed})
    return f"[green]published {len(placed)}[/] to {clean(topic)} (partitions used: {partitions})"


def _tell_invalid(line: InputLine, *, json: bool) -> None:
    if not isinstance(line.content, Invalid):
        return
    why = line.content.why
    if json:
        print_json({"line": line.number, "error": asdict(why)})
    location = f"line {line.number}: [red]{clean(why.code)}[/] at {clean(why.path)}"
    errors.print(f"{location}: {clean(why.message)}", soft_wrap=True)
