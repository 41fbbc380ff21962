"""What reading a Python text gives, in the manner of the shell's reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from app.core.gate1.shell.reading import Command, Nested


class PythonReading(NamedTuple):
    """The commands that the program's calls stand for, in the order in which they are met.

    A library call without a counterpart is a command whose program is its dotted name in lower case.
    `nested`: texts in other languages. `parsed`: the text is Python; what is not gives an empty reading.
    `inconclusive` says why the reading may be incomplete.
    """

    commands: tuple[Command, ...] = ()
    nested: tuple[Nested, ...] = ()
    inconclusive: str | None = None
    parsed: bool = False
