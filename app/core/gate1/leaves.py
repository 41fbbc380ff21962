"""The string leaves of an action's parameters: where each lies, under which key; vectors of words joined."""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.gate1.languages import REMEMBERED_KEYS
from app.core.words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "$.parameters"
_PROGRAM_WORDS = frozenset(["cmd", "command", "program", "executable", "binary", "tool", "exe", "file"])
_ARGUMENT_WORDS = frozenset(["args", "argv", "arguments", "params", "flags", "options", "opts"])
_VECTOR_WORDS = _PROGRAM_WORDS | _ARGUMENT_WORDS


PROGRAM_AND_ARGUMENTS, MOST_FIELDS = 2, 16
"""An object with so many fields may describe a call: a program, its arguments, and some settings."""


class Leaf(NamedTuple):
    """`key`: the nearest above it; `path`: JSON path; `whole` False for one word of an argument vector."""

    key: str
    path: str
    text: str
    whole: bool = True


def leaves(parameters: dict[str, Any], root: str = ROOT) -> Iterator[Leaf]:
    """Every string, and every list of strings once more as one command line. Order of the document."""
    pending: list[tuple[str, str, Any, bool]] = [("", root, parameters, True)]
    while pending:
        key, path, value, whole = pending.pop()
        if isinstance(value, str):
            yield Leaf(key, path, value, whole)
        elif isinstance(value, dict):
            yield from _command_line(value, path)
            pending.extend((name, f"{path}.{name}", inner, True) for name, inner in reversed(value.items()))
        elif isinstance(value, list):
            vector = _is_vector(key, value)
            if vector:
                yield Leaf(key, path, shlex.join(value))
            pending.extend((key, f"{path}[{place}]", value[place], not vector) for place in _backwards(value))


def keys(parameters: dict[str, Any]) -> Iterator[str]:
    """Every key, at any depth."""
    pending: list[Any] = [parameters]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield from value
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def _backwards(value: list[Any]) -> range:
    return range(len(value) - 1, -1, -1)


def _is_vector(key: str, value: list[Any]) -> bool:
    """Strings whose first is a single word, as a program's name is, under a key that speaks of a command."""
    return (
        len(value) > 1
        and isinstance(value[0], str)
        and bool(value[0])
        and not any(letter.isspace() for letter in value[0])
        and all(isinstance(one, str) for one in value)
        and _is_about(key, _VECTOR_WORDS)
    )


def _command_line(value: dict[str, Any], path: str) -> Iterator[Leaf]:
    """`{"command": "rm", "args": ["-rf", "/"]}` as the line that it is."""
    if not PROGRAM_AND_ARGUMENTS <= len(value) <= MOST_FIELDS:
        return
    program = _under(value, _PROGRAM_WORDS)
    arguments = _under(value, _ARGUMENT_WORDS)
    if not isinstance(program, str) or not program or arguments is None:
        return
    if isinstance(arguments, str):
        yield Leaf("command", path, f"{program} {arguments}")
    elif isinstance(arguments, list) and all(isinstance(one, str) for one in arguments):
        yield Leaf("command", path, f"{program} {shlex.join(arguments)}")


def _under(value: dict[str, Any], words: frozenset[str]) -> Any:
    return next((one for key, one in value.items() if _is_about(key, words)), None)


@lru_cache(maxsize=REMEMBERED_KEYS)
def _is_about(key: str, words: frozenset[str]) -> bool:
    return not words.isdisjoint(words_of(key))
