"""Word classes: `$name` in an expression becomes one of the class's words, `$gap` a few words between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from app.core.content.demand import SIGNS, WORDS_BETWEEN, Demand
from app.core.content.demanded import demand
from app.core.text.letters import plain_letters

if TYPE_CHECKING:
    from collections.abc import Mapping


_WORD = r"0-9A-Za-z_\x{80}-\x{10FFFF}"
_NO_WORD = r"\x00-/:-@\[-\^`{-\x7f"
_INSIDE = {r"\w": _WORD, r"\W": _NO_WORD}
_OUTSIDE = {r"\w": f"[{_WORD}]", r"\W": f"[^{_WORD}]"}
_PART = re.compile(
    r"\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[0-9a-fA-F]+\}|[0-9a-fA-F]{2})|\\.|\[\^?\]?|.", re.DOTALL
)


def rewritten(expression: str) -> str:
    """The expression, in which \\w is any letter, digit, underscore or character above ASCII.

    RE2's \\w and \\W know ASCII alone. Here every character above ASCII is one of a word: normalised text has
    few others there, and real Unicode classes would make each automaton hundreds of times as large.
    """
    out: list[str] = []
    inside = False
    for part in _PART.findall(expression):
        out.append((_INSIDE if inside else _OUTSIDE).get(part, part))
        inside = part != "]" if inside else part[0] == "["
    return "".join(out)


BUILT_IN = {
    "gap": (r"(?:\W+\w+){0,3}?\W+", WORDS_BETWEEN),
    "gap6": (r"(?:\W+\w+){0,6}?\W+", WORDS_BETWEEN),
    "sep": (r"\W+", SIGNS),
}
"""Up to three words between two others, up to six, none."""
_NAME = re.compile(r"\\.|\$([a-z][a-z0-9_]*)", re.DOTALL)
_BOUNDARY = re.compile(r"(\\[^b])|\\b")


class LexiconError(Exception):
    """A class that does not exist or that contains itself; the message names it."""


class Expanded(NamedTuple):
    """`searched`: the expression as RE2 takes it; `demand`: what a text must hold for it to be found."""

    searched: str
    demand: Demand


class Lexicon:
    """The classes by name, each expanded once with edges of words and once without."""

    __slots__ = ("_classes", "_expanded", "_open")

    def __init__(self, classes: Mapping[str, list[str]]) -> None:
        self._classes = classes
        self._expanded = {
            (name, edges): Expanded(rewritten(between), demanded)
            for name, (between, demanded) in BUILT_IN.items()
            for edges in (True, False)
        }
        self._open: list[str] = []

    def expand(self, expression: str) -> Expanded:
        """The expression without class names; beside other scripts there is no \\b. Raises LexiconError."""
        whole = self._expand(expression, edges=True)
        return whole if whole.searched.isascii() else self._expand(expression, edges=False)

    def _expand(self, expression: str, *, edges: bool) -> Expanded:
        spelt = plain_letters(expression if edges else _BOUNDARY.sub(r"\1", expression))
        searched = _NAME.sub(
            lambda one: self._class(one[1], edges=edges).searched if one[1] else one[0], rewritten(spelt)
        )
        return Expanded(searched, demand(spelt, lambda name: self._class(name, edges=edges).demand))

    def _class(self, name: str, *, edges: bool) -> Expanded:
        if (name, edges) not in self._expanded:
            if name in self._open:
                raise LexiconError(f"${name} contains itself: {' > '.join((*self._open, name))}")
            if name not in self._classes:
                raise LexiconError(f"there is no class ${name}")
            self._open.append(name)
            self._expanded[name, edges] = self._expand(f"(?:{'|'.join(self._classes[name])})", edges=edges)
            self._open.pop()
        return self._expanded[name, edges]
