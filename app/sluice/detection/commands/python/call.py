"""A call with its arguments, as the functions that know a library see it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sluice.detection.commands.python.values import UNKNOWN, PythonValue, canonical, merge
from sluice.detection.commands.shell import Command


class Findings(Protocol):
    """What a program does, as far as it is read."""

    @property
    def started(self) -> int:
        """How many shell texts were handed over."""

    def command(self, command: Command) -> None:
        """A command that the program runs or stands for."""

    def shell(self, text: str) -> tuple[Command, ...]:
        """Read a shell text that the program runs; its commands."""

    def sql(self, text: str, how: str) -> None:
        """A text given to a database."""

    def inner(self, text: str) -> PythonValue:
        """A program within the program; the value of its last expression."""


class PythonCall(NamedTuple):
    """`name`: the dotted name of what is called, "" if unknown; `base`: the object whose `method` it is."""

    findings: Findings
    name: str
    method: str
    base: PythonValue
    args: list[PythonValue]
    keywords: dict[str, PythonValue]

    def arg(self, index: int, *names: str) -> PythonValue:
        """The argument at a place or by one of its names; UNKNOWN where it is not given."""
        if index < len(self.args):
            return self.args[index]
        return next((self.keywords[name] for name in names if name in self.keywords), UNKNOWN)

    def list_sources(self) -> tuple[Command, ...]:
        """The sources of the object and of all arguments."""
        return merge([self.base, *self.args, *self.keywords.values()])

    def run(self, program: str, *args: str, feeds: tuple[Command, ...] = ()) -> Command:
        """The program does what this command does, fed by those."""
        flat = tuple(
            dict.fromkeys(source for feed in feeds for source in (*feed.fed_by, feed._replace(fed_by=())))
        )
        command = Command(program, args, reads_pipe=bool(flat), path=program, fed_by=flat)
        self.findings.command(command)
        return command

    def result(self, *commands: Command) -> PythonValue:
        """What the call returns: something that holds the commands' output and what it was given."""
        return PythonValue(
            None, canonical(f"{self.name}()") if self.name else "", feeds=(*commands, *self.list_sources())
        )
