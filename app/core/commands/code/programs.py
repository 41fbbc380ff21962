"""Calls, and the words of the programs that they start."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from app.core.commands.code.libraries import FILES, PROGRAMS, PROGRAMS_OF, TREES
from app.core.commands.code.values import UNKNOWN, Value, options_of
from app.core.commands.python.values import HOLE


class Call(NamedTuple):
    """`name`: the path in lower case; `base`: the value whose method it is."""

    name: str
    base: Value
    args: tuple[Value, ...]

    @property
    def last(self) -> str:
        """The method's name."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """What stands before the method's name."""
        return self.name.rpartition(".")[0].rpartition(".")[2]


_ALSO_SHELLS = frozenset(["exec", "system", "popen", "run"])
"""With one text alone they hand it to a shell."""


def is_spoken(name: str) -> bool:
    """Whether a name may be a call without parentheses."""
    plain = name.lower()
    last = plain.rpartition(".")[2]
    return plain in ("system", "exec", "spawn", "unlink", "rmtree", "remove_tree") or (
        "." in plain and (last in TREES or last in FILES or last in ("delete", "write", "system", "rm"))
    )


def program_words(call: Call, first: Value) -> list[str] | None:
    """The words of `spawn("rm", ["-rf", "/"])`; None for what starts none, or hands its text to a shell."""
    if not _starts_program(call):
        return None
    options = Value(options=options_of(call.args))
    listed = options.option("cmd", "command", "args")
    listed = listed if listed is not None and listed.items else UNKNOWN
    if first.items is not None:
        return words_of_values((first,))
    if first.text is None:
        return words_of_values((listed,)) or None
    words = [first.text, *words_of_values((*call.args[1:], listed))]
    if len(words) == 1 and (call.last in _ALSO_SHELLS or " " in first.text):
        return None if call.last in _ALSO_SHELLS else ["sh", "-c", first.text]
    return _as_started(call, options.option("shell"), words)


def _starts_program(call: Call) -> bool:
    owners = PROGRAMS_OF.get(call.last)
    named = call.last in PROGRAMS or call.name in PROGRAMS
    return named and (owners is None or call.owner in owners)


def _as_started(call: Call, shell: Value | None, words: list[str]) -> list[str]:
    if shell is not None and shell.text == "true":
        return ["sh", "-c", " ".join(words)]
    if call.last == "start" and len(words) == 2:  # noqa: PLR2004 - .NET: a program, its arguments as one text
        return [words[0], *_split(words[1])]
    return words


def words_of_values(values: tuple[Value, ...]) -> list[str]:
    """Their words one after the other, those of lists among them; HOLE for one that is not known."""
    words: list[str] = []
    for one in values:
        if one.items is not None:
            words += words_of_values(one.items)
        elif one.text is not None and not one.options:
            words.append(one.text)
        elif not one.options and one.name:
            words.append(HOLE)
    return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def joined(words: list[str]) -> str:
    return " ".join(f'"{one}"' if HOLE in one else shlex.quote(one) for one in words)
