"""Word classes: `$name` in an expression becomes one of the class's words, `$gap` a few words between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from app.core.content.letters import plain_letters
from app.core.content.required import WORDS_BETWEEN, Part, part_of
from app.core.content.rewritten import rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILT_IN = {
    "gap": r"(?:\W+\w+){0,3}?\W+",
    "gap6": r"(?:\W+\w+){0,6}?\W+",
    "sep": r"\W+",
}
"""Up to three words between two others, up to six, none."""
_NAME = re.compile(r"\\.|\$([a-z][a-z0-9_]*)", re.DOTALL)
_BOUNDARY = re.compile(r"(\\[^b])|\\b")


class LexiconError(Exception):
    """A class that does not exist or that contains itself; the message names it."""


class Expanded(NamedTuple):
    """`searched`: the expression as RE2 takes it; `part`: what a text must hold for it to be found.

    `edged`: the same where it stands behind the edge of a word; told apart for classes alone.
    """

    searched: str
    part: Part
    edged: Part


class Lexicon:
    """The classes by name, each expanded once."""

    __slots__ = ("_classes", "_expanded", "_open")

    def __init__(self, classes: Mapping[str, list[str]]) -> None:
        self._classes = classes
        self._expanded = {
            name: Expanded(rewritten(between), WORDS_BETWEEN, WORDS_BETWEEN)
            for name, between in BUILT_IN.items()
        }
        self._open: list[str] = []

    def expand(self, expression: str) -> Expanded:
        """The expression without class names; beside other scripts there is no \\b. Raises LexiconError."""
        whole = self._expand(expression, of_class=False)
        if whole.searched.isascii():
            return whole
        return whole._replace(searched=_BOUNDARY.sub(r"\1", whole.searched))

    def _expand(self, expression: str, *, of_class: bool) -> Expanded:
        spelt = plain_letters(expression)
        searched = _NAME.sub(lambda one: self._class(one[1]).searched if one[1] else one[0], rewritten(spelt))
        part = part_of(spelt, self._part)
        return Expanded(searched, part, part_of(spelt, self._part, edged=True) if of_class else part)

    def _part(self, name: str, edged: bool) -> Part:
        return self._class(name).edged if edged else self._class(name).part

    def _class(self, name: str) -> Expanded:
        if name not in self._expanded:
            if name in self._open:
                raise LexiconError(f"${name} contains itself: {' > '.join((*self._open, name))}")
            if name not in self._classes:
                raise LexiconError(f"there is no class ${name}")
            self._open.append(name)
            self._expanded[name] = self._expand(f"(?:{'|'.join(self._classes[name])})", of_class=True)
            self._open.pop()
        return self._expanded[name]
