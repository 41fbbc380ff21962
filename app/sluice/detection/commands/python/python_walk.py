"""What the readers of statements, expressions and calls share: what a program does, and the walk over it.

What is found are commands, shell texts, which are read on the spot, and statements in SQL.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Protocol

from sluice.detection.commands.python.python_values import HOLE
from sluice.detection.commands.shell import Nested, read_shell, shell_bounds
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.detection.commands.python.python_values import PythonScope, PythonValue
    from sluice.detection.commands.shell.shell_reading import Command

    Function = ast.FunctionDef | ast.AsyncFunctionDef

MOST_COMMANDS = 120
MOST_SHELL_TEXTS = 12
"""Shell texts of one program that are read; reading one takes a tenth of a millisecond and more."""
MOST_SHELL_CHARACTERS = 3072
_STATEMENT = re.compile(
    r"\s*(?:--[^\n]*\n\s*|/\*|\()*\s*(?:select|insert|update|delete|drop|truncate|alter|create|grant|revoke|with|merge"
    r"|replace|exec|execute|call|declare|do|copy|load|set|use|backup|restore|shutdown|kill|attach|pragma|vacuum"
    r"|rename|detach|purge|begin|match)\b",
    re.IGNORECASE,
)


class ProgramFindings:
    """What was found so far."""

    def __init__(self) -> None:
        self.commands: dict[Command, None] = {}
        self.full = False
        self.nested: dict[Nested, None] = {}
        self.inconclusive: str | None = None
        self._texts_left = MOST_SHELL_TEXTS
        self._characters_left = MOST_SHELL_CHARACTERS
        self._read: dict[str, tuple[Command, ...]] = {}

    @property
    def started(self) -> int:
        """How many shell texts were handed over."""
        return len(self._read)

    def command(self, command: Command) -> None:
        """A command that the program runs or stands for."""
        self.commands[command] = None
        if len(self.commands) >= MOST_COMMANDS:
            self.full = True
            self.doubt("more commands than are looked at")

    def shell(self, text: str) -> tuple[Command, ...]:
        """Read a shell text that the program runs; its commands."""
        if text not in self._read:
            self._read[text] = self._shell(text)
        return self._read[text]

    def _shell(self, text: str) -> tuple[Command, ...]:
        past = shell_bounds(text)
        self._texts_left -= 1
        self._characters_left -= len(text)
        if past is not None or self._texts_left < 0 or self._characters_left < 0:
            self.doubt(past or "more shell commands than are read")
            return ()
        reading = read_shell(text)
        for command in reading.commands:
            self.command(command)
        self.nested.update(dict.fromkeys(reading.nested))
        self.doubt(reading.inconclusive)
        return reading.commands

    def sql(self, text: str, how: str) -> None:
        """A text given to a database, if it begins a statement; unknown parts become a plain name."""
        if _STATEMENT.match(text):
            self.nested[Nested(text.replace(HOLE, "unknown"), "sql", how)] = None

    def doubt(self, reason: str | None) -> None:
        """Why the reading may be incomplete; the first reason stays."""
        self.inconclusive = self.inconclusive or reason


_STRUCTURAL = vocabulary("isfile isdir exists islink is_file is_dir is_symlink access lexists")
"""Tests that leave nothing out: whether there is something to remove."""
_MOST_NODES = 400


class Loops:
    """`tests`: what decides whether this runs, of the innermost loop over many files or processes."""

    def __init__(self) -> None:
        self.walking = 0
        self.tests: list[ast.expr] = []
        self.encrypts = False

    @property
    def narrowed(self) -> bool:
        """Whether a test chooses among the many."""
        return any(narrows(test) for test in self.tests)


def narrows(test: ast.expr) -> bool:
    """Whether a test chooses among files: by name, age or content, not by there being one."""
    for node in nodes(test):
        if isinstance(node, ast.Compare):
            return True
        if isinstance(node, ast.Call) and _called(node) not in _STRUCTURAL | {"join", "Path"}:
            return True
    return False


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def nodes(node: ast.AST) -> list[ast.AST]:
    """A part of the tree, node by node, the first of them."""
    found = []
    for count, one in enumerate(ast.walk(node)):
        if count >= _MOST_NODES:
            break
        found.append(one)
    return found


class OwnFunctions(Protocol):
    """The functions of the program itself."""

    def defined(self, node: Function) -> None:
        """A function or method; its name means it from now on."""

    def class_defined(self, node: ast.ClassDef) -> None:
        """A class: what its body binds, and its methods."""

    def returned(self, value: PythonValue) -> None:
        """What the function that is being read returns."""

    def own(self, callee: PythonValue, method: str) -> str | None:
        """The program's own function that is called, None where it is none."""

    def call(self, name: str, args: list[PythonValue], keywords: dict[str, PythonValue]) -> PythonValue:
        """Read a function's body with its parameters bound; what it returns."""


class Walker(Protocol):
    """One walk over a program: what its names hold, and the commands that its calls stand for.

    `files`: what the program wrote into the files that it names.
    """

    scope: PythonScope
    files: dict[str, PythonValue]

    @property
    def found(self) -> ProgramFindings:
        """Collects what the program does."""

    @property
    def functions(self) -> OwnFunctions:
        """The program's own."""

    @property
    def around(self) -> Loops:
        """What stands around the statement that is being read."""

    @property
    def may_repeat(self) -> bool:
        """Whether there is work left for reading a part once more with other values."""

    def value(self, node: ast.expr | None) -> PythonValue:
        """What is known of an expression; what it calls is found on the way."""

    def values(self, nodes: Iterable[ast.expr]) -> list[PythonValue]:
        """Several expressions, in their order."""

    def body(self, statements: list[ast.stmt]) -> None:
        """A block of statements."""

    def attribute(self, node: ast.Attribute, base: PythonValue) -> PythonValue:
        """An attribute of what is known already."""

    def found_call(self, callee: PythonValue, args: list[PythonValue]) -> PythonValue:
        """A call that other code makes."""

    def inner(self, text: str) -> PythonValue:
        """A program within the program; the value of its last expression."""
