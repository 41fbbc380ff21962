"""The string leaves of an action's parameters: where each lies, under which key; vectors of words joined.

A `LeafPlace` says where and how a text under inspection was found.
"""

from __future__ import annotations

import shlex
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.detection.commands.languages import REMEMBERED_KEYS
from sluice.detection.disguises.unfold import PLAIN
from sluice.text.name_words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "$.parameters"
LEAVES = 500
"""The most string leaves that are looked at one by one; an action with more is not read but scanned."""
PROGRAM_AND_ARGUMENTS, MOST_FIELDS = 2, 16
"""An object with so many fields may describe a call: a program, its arguments, and some settings."""
_PROGRAM_WORDS = frozenset(["cmd", "command", "program", "executable", "binary", "tool", "exe", "file"])
_ARGUMENT_WORDS = frozenset(["args", "argv", "arguments", "params", "flags", "options", "opts"])
_PARTS_OF_ARGUMENT_WORDS = ("arg", "param", "flag", "opt")
_STRINGS = {str}
_LIFECYCLE = "lifecycle"
LONGEST_OPERATION = 64
"""Characters of a text that may name an operation."""
CONFIGURATION_CHARS = 2048
"""A longer configuration is not read as a whole."""

Trail = tuple[Any, str | int | list[str]] | None
"""The way from the root to a value: the trail of what holds it, and its key, keys or index there. None: the
root."""


class Leaf(NamedTuple):
    """`key`: the nearest above it; `whole` False for one word of an argument vector."""

    key: str
    trail: Trail
    text: str
    whole: bool = True

    @property
    def path(self) -> str:
        """The leaf's JSON path."""
        return path_of(self.trail)


_TEXT = attrgetter("text")


def path_of(trail: Trail) -> str:
    """A trail as a JSON path; only hits have theirs written out."""
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        if isinstance(step, list):
            steps += (f".{name}" for name in reversed(step))
        else:
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return ROOT + "".join(reversed(steps))


class Walk:
    """One walk over all of the parameters, which a record holds no deeper than its reader allows.

    `leaves` are those that may be looked at, every list of strings once more as one command line, in the
    order of the document; `more` are the texts past that bound, `keys` all keys at any depth, `texts` all
    texts.
    """

    __slots__ = ("keys", "leaves", "more", "texts")

    def __init__(self, parameters: dict[str, Any], tool_name: str | None = None) -> None:
        """With the name of the tool a storage's lifecycle is looked for too."""
        self.leaves: list[Leaf] = []
        self.more: list[str] = []
        self.keys: list[str] = []
        self._object(parameters, None)
        self.texts = [*map(_TEXT, self.leaves)]
        if tool_name is not None and _LIFECYCLE in "\n".join([tool_name, *self.keys, *self.texts]).lower():
            self._add_configuration(tool_name, parameters)
        self.texts += self.more

    def _add_configuration(self, tool_name: str, parameters: dict[str, Any]) -> None:
        """A storage's lifecycle once more as the text that a program is given, which patterns know."""
        short = [text for text in self.texts if len(text) <= LONGEST_OPERATION]
        if _LIFECYCLE not in "\n".join([tool_name, *self.keys, *short]).lower():
            return
        text = orjson.dumps(parameters).decode()
        if len(text) <= CONFIGURATION_CHARS and len(self.leaves) < LEAVES:
            self.leaves.append(Leaf("", None, f"{_LIFECYCLE} {text}", whole=True))
            self.texts.append(self.leaves[-1].text)

    def _object(self, value: dict[str, Any], trail: Trail) -> None:
        if len(value) == 1:
            self._chain(value, trail)
            return
        self.keys.extend(value)
        if len(value) > LEAVES and set(map(type, value.values())) == _STRINGS:
            self.more.extend(value.values())
            return
        if PROGRAM_AND_ARGUMENTS <= len(value) <= MOST_FIELDS and _may_describe_call(tuple(value)):
            self.leaves += _command_line(value, trail)
        for name, inner in value.items():
            self._child(name, inner, (trail, name))

    def _chain(self, value: dict[str, Any], trail: Trail) -> None:
        """Objects of one field within each other, which need no call for each."""
        names: list[str] = []
        inner: Any = value
        while type(inner) is dict and len(inner) == 1:
            (name,) = inner
            names.append(name)
            inner = inner[name]
        self.keys += names
        if isinstance(inner, str) and len(self.leaves) < LEAVES:
            self.leaves.append(Leaf(names[-1], (trail, names), inner))
        else:
            self._child(names[-1], inner, (trail, names))

    def _child(self, key: str, value: Any, trail: Trail, *, whole: bool = True) -> None:
        if isinstance(value, str):
            if len(self.leaves) < LEAVES:
                self.leaves.append(Leaf(key, trail, value, whole))
            else:
                self.more.append(value)
        elif isinstance(value, dict):
            self._object(value, trail)
        elif isinstance(value, list) and value:
            self._list(key, value, trail)

    def _list(self, key: str, value: list[Any], trail: Trail) -> None:
        if len(value) > LEAVES and set(map(type, value)) == _STRINGS:
            self.more.extend(value)
            return
        vector = _is_vector(key, value)
        if vector:
            self.leaves.append(Leaf(key, trail, shlex.join(value)))
        for index, inner in enumerate(value):
            if isinstance(inner, (str, dict, list)):
                self._child(key, inner, (trail, index), whole=not vector)


def leaves(parameters: dict[str, Any]) -> list[Leaf]:
    """The string leaves within the bound, in the order of the document."""
    return Walk(parameters).leaves


def _is_vector(key: str, value: list[Any]) -> bool:
    """Strings whose first is a single word, as a program's name is, under a key that speaks of a command."""
    return (
        len(value) > 1
        and isinstance(value[0], str)
        and bool(value[0])
        and (_is_program(key) or _is_argument(key))
        and not any(character.isspace() for character in value[0])
        and all(isinstance(part, str) for part in value)
    )


def _command_line(value: dict[str, Any], trail: Trail) -> Iterator[Leaf]:
    """`{"command": "rm", "args": ["-rf", "/"]}` as the line that it is."""
    texts = [(key, content) for key, content in value.items() if isinstance(content, (str, list)) and content]
    if len(texts) < PROGRAM_AND_ARGUMENTS:
        return
    program = next((content for key, content in texts if isinstance(content, str) and _is_program(key)), None)
    if program is None:
        return
    arguments = next((content for key, content in texts if _is_argument(key)), None)
    if isinstance(arguments, str):
        yield Leaf("command", trail, f"{program} {arguments}")
    elif arguments is not None and all(isinstance(argument, str) for argument in arguments):
        yield Leaf("command", trail, f"{program} {shlex.join(arguments)}")


@lru_cache(maxsize=REMEMBERED_KEYS)
def _may_describe_call(keys: tuple[str, ...]) -> bool:
    """Whether a key may speak of arguments, which those of few objects do."""
    written = " ".join(keys).lower()
    return any(part in written for part in _PARTS_OF_ARGUMENT_WORDS)


@lru_cache(maxsize=REMEMBERED_KEYS)
def _is_program(key: str) -> bool:
    return not _PROGRAM_WORDS.isdisjoint(words_of(key))


@lru_cache(maxsize=REMEMBERED_KEYS)
def _is_argument(key: str) -> bool:
    return not _ARGUMENT_WORDS.isdisjoint(words_of(key))


class LeafPlace(NamedTuple):
    """`trail`: the way to the leaf; `how`: the disguises and languages around the text, outermost first."""

    trail: Trail
    how: str = PLAIN
    depth: int = 0

    @property
    def path(self) -> str:
        """The leaf's JSON path."""
        return path_of(self.trail)

    def nest(self, how: str) -> LeafPlace:
        """The place of a text inside the one here."""
        return LeafPlace(self.trail, how if self.how == PLAIN else f"{self.how} > {how}", self.depth + 1)
