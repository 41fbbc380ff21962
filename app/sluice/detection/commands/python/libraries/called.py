"""A call with its arguments, as the functions that know a library see it."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.python.python_values import HOLE, UNKNOWN, PythonValue, merged, word
from sluice.detection.commands.shell import Command

if TYPE_CHECKING:
    from sluice.detection.commands.python.python_walk import Walker
    from sluice.detection.commands.shell.shell_reading import Redirect

FETCHERS = frozenset({"curl", "wget"})
EVERY = "every file"


class Called(NamedTuple):
    """`name`: the dotted name of what is called, "" if unknown; `base`: the object whose `method` it is."""

    walker: Walker
    name: str
    method: str
    base: PythonValue
    args: list[PythonValue]
    keywords: dict[str, PythonValue]

    def arg(self, place: int, *names: str) -> PythonValue:
        """The argument at a place or by one of its names; UNKNOWN where it is not given."""
        if place < len(self.args):
            return self.args[place]
        return next((self.keywords[name] for name in names if name in self.keywords), UNKNOWN)

    def gives(self, name: str, *args: str) -> bool:
        """Whether an argument is given by that name, and is no constant but one of these texts."""
        return name in self.keywords and (not args or self.keywords[name].text in args)

    def given(self) -> list[PythonValue]:
        """All arguments."""
        return [*self.args, *self.keywords.values()]

    def path(self, value: PythonValue) -> str:
        """A path as a word; where only some of many files are meant, no pattern of all of them."""
        text = word(value)
        return text.replace("*", "?*") if value.every and self.walker.around.narrowed else text

    def runs(
        self,
        program: str,
        *args: str,
        fed_by: tuple[Command, ...] = (),
        redirects: tuple[Redirect, ...] = (),
        stdin: str | None = None,
        via: tuple[str, ...] = (),
    ) -> Command:
        """The program does what this command does."""
        flat = tuple(
            dict.fromkeys(one for feed in fed_by for one in (*feed.fed_by, feed._replace(fed_by=())))
        )
        command = Command(program, args, redirects, bool(flat), via, program, (), stdin, flat)
        self.walker.found.command(command)
        self._downloaded(command)
        return command

    def _downloaded(self, command: Command) -> None:
        for flag, path in zip(command.args, command.args[1:], strict=False):
            if command.program in FETCHERS and flag in {"-o", "-O"} and HOLE not in path:
                self.walker.files[posixpath.normpath(path)] = PythonValue(feeds=(command,))

    def result(self, *commands: Command, text: str | None = None) -> PythonValue:
        """What the call returns: something that holds the commands' output."""
        feeds = (*commands, *merged([self.base, *self.args, *self.keywords.values()]))
        return PythonValue(text, f"{self.name}()" if self.name else "", feeds=feeds, every=self.base.every)
