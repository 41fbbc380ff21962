"""What a program does: commands, shell texts, which are read on the spot, and statements in SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sluice.detection.commands.python.values import HOLE
from sluice.detection.commands.shell import Nested, read_shell, shell_bounds

if TYPE_CHECKING:
    from sluice.detection.commands.shell.shell_reading import Command

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
