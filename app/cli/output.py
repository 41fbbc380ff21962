"""How every verb speaks and stops: tables and sentences for people, JSON lines for programs, exit codes.

Exit codes: 0 done and well, 1 done and something is wrong with the data, 2 could not be done.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from app.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from app.adapters.kafka.kafka_read import UnknownTopics

WELL = 0
WRONG = 1
IMPOSSIBLE = 2

console = Console()
errors = Console(stderr=True)


def shown(value: object) -> str:
    """Text out of a record, safe to print: no markup of ours, no control sequence of a forger's."""
    text = str(value)
    return escape(text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text))


def print_json(value: Any) -> None:
    """One JSON value on one line of standard output, in printable ASCII: the only way that JSON goes there.

    Records hold what strangers wrote. C1 controls, bidirectional controls and line separators would move a
    terminal's cursor or turn its text round; DEL is the one control character that JSON lets stand.
    """
    typer.echo(json.dumps(value).replace("\x7f", "\\u007f"))


def stop(message: str, code: int = IMPOSSIBLE) -> NoReturn:
    """Say on standard error why the command ends here, and end it."""
    lines = "\n".join(shown(line) for line in message.split("\n"))
    errors.print(f"[bold red]sluice:[/] {lines}", soft_wrap=True)
    raise typer.Exit(code)


def stop_unknown_topics(error: UnknownTopics) -> NoReturn:
    """Some topics are not on the broker: name them and how to make them."""
    stop(f"{error}. `sluice topics create` makes what is missing; `sluice topics check` says what is there.")


def settings_or_stop() -> Settings:
    """The settings in force; a wrong one ends the command with its name."""
    try:
        return load_settings()
    except SettingsError as error:
        stop(str(error))
