"""What reading a shell text gives: its simple commands, and the texts in other languages that they run."""

from __future__ import annotations

from typing import NamedTuple


class Redirect(NamedTuple):
    """A redirection of a command: its operator (`>`, `>>`, `<`, `&>` ...) and the file it names."""

    operator: str
    target: str


class Command(NamedTuple):
    """One simple command, as the shell would run it: quotes, escapes and known variables resolved.

    `program` is the base name in lower case, "" for a bare assignment or redirection; `path` the name as it
    was called. `fed_by`: the commands whose output it reads from a pipe or has among its words by `$(...)`.
    `stdin`: its standard input where the text says it. `via`: the wrappers around it, outermost first.
    """

    program: str
    args: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    reads_pipe: bool = False
    via: tuple[str, ...] = ()
    path: str = ""
    assigned: tuple[tuple[str, str], ...] = ()
    stdin: str | None = None
    fed_by: tuple[Command, ...] = ()


class Nested(NamedTuple):
    """A text that a command hands to an interpreter: its language and how it got there ("psql -c")."""

    text: str
    language: str
    how: str


class ShellReading(NamedTuple):
    """All commands in order of appearance, those inside wrappers and substitutions included.

    `inconclusive` says why the reading may be incomplete: a bound was passed, or the text is no shell text.
    `work`: what the parser was given, in shares of what one reading may cost.
    """

    commands: tuple[Command, ...] = ()
    nested: tuple[Nested, ...] = ()
    inconclusive: str | None = None
    work: float = 0.0
