"""How every verb speaks and stops: tables and sentences for people, JSON lines for programs, exit codes.

Exit codes: 0 done and well, 1 done and something is wrong with the data, 2 could not be done.

Text of strangers is shown so that a reviewer sees what a model would read: code points that cannot be seen
stand by their number (control characters, bidirectional overrides (CVE-2021-42574), zero-width characters,
Unicode tags and variation selectors, letters without a shape), and nothing in it acts on the terminal. Spans
of time are written as people write them on a command line: 90s, 30m, 12h, 7d.
"""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.text import Text

from sluice.settings.reader import Settings, SettingsError, load_settings
from sluice.text.plurals import count_noun
from sluice.text.visible import is_seen, number

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from pathlib import Path

    from rich.console import RenderableType

    from sluice.client.record_proofs import RecordProofs
    from sluice.core.reports.report import Rate
    from sluice.observability.http_listener import HttpListener
    from sluice_topics.audience import Audience

T = TypeVar("T")
WELL = 0
WRONG = 1
IMPOSSIBLE = 2
EXIT_FAULT = 3
"""Of a process that runs until it is stopped: the broker went away, or a part of it ended."""

PIPED_WIDTH = 1000
"""Columns of what is no terminal, unless the environment names another number."""


class WholeConsole(Console):
    """A console that cuts and folds nothing at 80 columns where a file or another program reads it."""

    @property
    def size(self) -> ConsoleDimensions:
        """Of the terminal; without one, wide enough for every line."""
        size = super().size
        if self.is_terminal or "COLUMNS" in self._environ:
            return size
        return ConsoleDimensions(PIPED_WIDTH, size.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size


console = WholeConsole()
errors = Console(stderr=True)


def clean(value: object) -> str:
    """Text out of a record, safe to print: no markup of ours, no control sequence of a forger's."""
    text = str(value)
    return escape(text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text))


def print_json(value: Any, *, end: str = "\n") -> None:
    """One JSON value on one line of standard output, in printable ASCII: the only way that JSON goes there.
    `end`: what follows, for a value that is a part of a larger one.

    Records hold what strangers wrote. C1 controls, bidirectional controls and line separators would move a
    terminal's cursor or turn its text round; DEL is the one control character that JSON lets stand.
    """
    typer.echo(json.dumps(value).replace("\x7f", "\\u007f") + end, nl=False)


def print_parts(parts: Iterable[RenderableType], to: Console = console) -> None:
    """Tables, and sentences in rich markup, one after the other; a sentence keeps its one line."""
    for part in parts:
        to.print(part, soft_wrap=isinstance(part, str), highlight=False)


def print_line(text: str, to: Console = console) -> None:
    """One line, however long."""
    to.print(text, soft_wrap=True, highlight=False)


def log_to_stderr(settings: Settings) -> None:
    """Log ours from the settings' level on, and warnings of all, those of Kafka's client thinned out."""
    from sluice.client.kafka_lines import thin_out_kafka_lines  # noqa: PLC0415 - few commands log
    from sluice.observability.log_lines import configure_logging  # noqa: PLC0415 - as above

    configure_logging(settings.logging.format, settings.logging.level)
    thin_out_kafka_lines(settings.kafka.bootstrap_servers)


def stop(message: str, code: int = IMPOSSIBLE) -> NoReturn:
    """Say on standard error why the command ends here, and end it."""
    lines = "\n".join(clean(line) for line in message.split("\n"))
    errors.print(f"[bold red]sluice:[/] {lines}", soft_wrap=True)
    raise typer.Exit(code)


def require_bytes(file: Path) -> bytes:
    """Return what is in a file; one that cannot be read ends the command."""
    try:
        return file.read_bytes()
    except OSError as error:
        stop(f"cannot read {file}: {error.strerror}")


def write_file(file: Path, value: bytes, *, anew: bool = False) -> None:
    """Write a file; one that cannot be written ends the command, and with `anew` one that is there."""
    try:
        with file.open("xb" if anew else "wb") as out:
            out.write(value)
    except OSError as error:
        stop(f"cannot write {file}: {error.strerror}")


NO_BROKER = "the broker does not answer: {}. `sluice broker start` starts one."
REFUSED = "the broker refuses this: {}"
CANNOT_PUBLISH = "cannot publish: {}"
CANNOT_READ = "cannot read the ledger: {}"


def require_broker(work: Coroutine[Any, Any, T], message: str = NO_BROKER) -> T:
    """Return the result of work on a broker; what cannot be done ends the command.
    `message`: how that is said, with {} for why."""
    import asyncio  # noqa: PLC0415 - many commands ask no broker

    from sluice.adapters.kafka.kafka_publish import AnotherPublisherError  # noqa: PLC0415 - as above
    from sluice.adapters.kafka.kafka_read import (  # noqa: PLC0415 - as above
        KafkaRefused,
        KafkaUnreachable,
        UnknownTopics,
    )

    try:
        return asyncio.run(work)
    except KafkaRefused as error:
        stop(REFUSED.format(error))
    except UnknownTopics as error:
        what = "`sluice topics create` makes what is missing; `sluice topics check` says what is there."
        stop(f"{error}. {what}")
    except (KafkaUnreachable, AnotherPublisherError) as error:
        stop(message.format(error))


def require_settings() -> Settings:
    """The settings in force; a wrong one ends the command with its name."""
    try:
        return load_settings()
    except SettingsError as error:
        stop(str(error))


def require_audience() -> Audience:
    """The installation for which the command signs; without its id the command ends."""
    settings = require_settings()
    if not settings.policy.installation:
        stop("policy.installation is empty, and a signature is for one: `sluice init` makes its id")
    return settings.build_audience()


def require_record_proofs(settings: Settings, more_keys: Iterable[str] = ()) -> RecordProofs:
    """Which keys must have signed the workers' records; one that cannot be used ends the command."""
    from sluice.client.answers import ClientError  # noqa: PLC0415 - few commands read answers
    from sluice.client.record_proofs import RecordProofs  # noqa: PLC0415 - as above

    try:
        return RecordProofs((*settings.verdicts.public_keys, *more_keys), settings.build_audience())
    except ClientError as error:
        stop(f"verdicts.public_keys: {error}")


MARGIN = "  │ "
"""Before each line, so that no content can pass for a line of ours."""


def make_visible(text: str) -> Text:
    """The text on one line. An invisible code point stands as <U+202E>, reversed."""
    shown = Text()
    for visible, run in groupby(text, key=is_seen):
        if visible:
            shown.append("".join(run))
        else:
            shown.append(number("".join(run)), style="reverse")
    return shown


def quote(text: str, most: int) -> Text:
    """Return up to `most` characters, each of the text's own lines behind a margin."""
    lines = [Text(MARGIN, style="dim") + make_visible(line) for line in text[:most].split("\n")]
    if len(text) > most:
        lines.append(Text(f"{MARGIN}… {count_noun(len(text) - most, 'character')} more", style="dim"))
    return Text("\n").join(lines)


def read_clock_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_span(text: str) -> int | None:
    """Milliseconds of a number and a unit; None for what is none."""
    read = _SPAN.fullmatch(text)
    return None if read is None else int(read[1]) * _MS[read[2]]


def parse_moment(text: str | None, option: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time (UTC, unless it names its offset) or of a span back from
    now; what is neither ends the command with the option's name."""
    if text is None:
        return None
    if (back := parse_span(text)) is not None:
        return read_clock_ms() - back
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        stop(f"{option}: {text!r} is no time such as 2026-01-31T12:00:00Z, and no span such as 30m, 2h, 7d")
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="From then on: an ISO time (UTC) or a span back from now: 30m, 2h, 7d."
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only what is older: as for --since.")]


NOTHING = "-"
_LEAST, _MOST = 0.0001, 0.9999


def format_percent(rate: Rate) -> str:
    """Write a rate with two digits; a dash for a rate of nothing.

    Only all is 100 % and only none is 0 %: one missing of a million must not be rounded away.
    """
    share = rate.rate
    if share is None:
        return NOTHING
    if share in (0, 1):
        return f"{share:.0%}"
    return "<0.01%" if share < _LEAST else ">99.99%" if share > _MOST else f"{share:.2%}"


def listen(listener: HttpListener, group: str) -> None:
    """Serve metrics and health from now on; `group`: whose setting says where. Ends the command where that
    cannot be done."""
    from sluice.observability.http_listener import ListenError  # noqa: PLC0415 - only to run

    try:
        listener.start()
    except ListenError as error:
        stop(f"{group}.metrics_address: {error}")
