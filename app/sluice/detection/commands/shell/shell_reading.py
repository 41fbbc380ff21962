"""What reading a shell text gives, and what the shell knows while the text is read.

A reading holds the simple commands, and the texts in other languages that they run. A scope holds variables,
functions, aliases, and the work left to do.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.shell.grammar import MOST_CHARACTERS, MOST_WORK, TOO_MUCH, shell_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tree_sitter import Node


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


MOST_COMMANDS = 96
"""Commands of one reading: an agent's longest scripts in the panel have under 60; each costs 60 us."""
MOST_STEPS = 1000
"""Statements and commands looked at, each call of a function anew; 3 KB of real scripts take up to 410."""
MOST_EXPANDED = 16_384
"""Characters of all values put in for variables: `x=$x$x` is twice as much each time."""
MOST_LEVELS = 40
"""Statements within statements, two or three for a block; each is three calls of the reader in each other."""
DEEPEST = 6
"""Texts inside texts (`sh -c "sh -c ..."`), substitutions and function calls, counted together."""
MOST_NESTED_CHARACTERS = 8192
"""Characters of all texts read inside the first one: twice what may be read at first."""


class ShellScope:
    """Changes while reading; one per text given to `read_shell`."""

    def __init__(
        self,
        run: Callable[[Node, ShellScope], str | None],
        read: Callable[[str, ShellScope], str | None],
        most_work: float = MOST_WORK,
    ) -> None:
        self.run = run
        """Reads a statement or substitution; gives its output where that is known."""
        self.read = read
        """Reads a text within this scope; gives its output where that is known."""
        self.variables: dict[str, str] = {}
        self.functions: dict[str, Node] = {}
        self.called: set[str] = set()
        self.aliases: dict[str, str] = {}
        self.files: dict[str, str] = {}
        """What the text wrote to files so far, by path."""
        self.commands: list[Command] = []
        self.nested: list[Nested] = []
        self.via: tuple[str, ...] = ()
        self.inconclusive: str | None = None
        self.levels = 0
        self.cut_off = False
        """Whether statements were left out because they are too deep inside others."""
        self.work = 0.0
        """The work of the texts parsed so far."""
        self._most_work = min(MOST_WORK, most_work)
        self._steps_left = MOST_STEPS
        self._expanded_left = MOST_EXPANDED
        self._depth = 0
        self._characters_left = MOST_NESTED_CHARACTERS

    def add(self, command: Command) -> None:
        """Notes a command, up to MOST_COMMANDS."""
        if not self.full():
            self.commands.append(command)

    def full(self) -> bool:
        """Whether nothing more is read; counts a step."""
        self._steps_left -= 1
        if len(self.commands) < MOST_COMMANDS and self._steps_left >= 0:
            return False
        self.inconclusive = "too_many_steps" if self._steps_left < 0 else "too_many_commands"
        return True

    def may_expand(self, characters: int) -> bool:
        """Whether a value of so many characters may be put in for a variable; counts them."""
        if characters > self._expanded_left:
            self.inconclusive = "too_much_expansion"
            return False
        self._expanded_left -= characters
        return True

    def exceed_bounds(self, text: str) -> str | None:
        """Why a text may not be parsed; its work is taken from what is left where it may."""
        if len(text) > MOST_CHARACTERS:
            return f"a shell text of {len(text)} characters is too long to parse"
        work = shell_work(text)
        if self.work + work > self._most_work:
            return TOO_MUCH
        self.work += work
        return None

    def read_nested(self, text: str, via: tuple[str, ...]) -> str | None:
        """Reads a text that a command hands to a shell, within what is left of depth and characters."""
        self._characters_left -= len(text)
        if self._characters_left < 0:
            self.inconclusive = "too_much_nested_text"
            return None
        before, self.via = self.via, via
        try:
            with self.deeper() as within:
                return self.read(text, self) if within else None
        finally:
            self.via = before

    @contextmanager
    def deeper(self) -> Iterator[bool]:
        """One level down; False when that is too deep."""
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                self.inconclusive = "nested_too_deep"
            yield self._depth <= DEEPEST
        finally:
            self._depth -= 1

    def take_reading(self) -> ShellReading:
        """What was read so far."""
        return ShellReading(tuple(self.commands), tuple(self.nested), self.inconclusive, self.work)
