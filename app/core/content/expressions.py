"""Expressions of the content library, made ready for RE2 and searched only where a text can hold them.

RE2's \\w, \\W and \\b know ASCII alone. Here every character above ASCII is one of a word: normalised text has
few others there, and real Unicode classes would make each automaton hundreds of times as large.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import re2

from app.core.content.letters import plain_letters
from app.core.content.lexicon import Lexicon, LexiconError
from app.core.content.prefilter import Prefilter
from app.core.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WORD = r"0-9A-Za-z_\x{80}-\x{10FFFF}"
_NO_WORD = r"\x00-/:-@\[-\^`{-\x7f"
_PART = re.compile(r"\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[0-9a-fA-F]+\}|[0-9a-fA-F]{2})|\\.|\[\^?\]?|.", re.DOTALL)


class Expressions:
    """Every expression of a library once, by its place."""

    __slots__ = ("_lexicon", "_places", "_searched")

    def __init__(self, classes: Mapping[str, list[str]]) -> None:
        """Raises BundleError with the path of the class that cannot be expanded."""
        self._lexicon = Lexicon(classes)
        self._places: dict[str, int] = {}
        self._searched: list[Any] = []
        for name, words in classes.items():
            for index, word in enumerate(words):
                self._expanded(word, f"lexicon.{name}[{index}]")

    def add(self, expressions: list[str], path: str) -> tuple[int, ...]:
        """The places of these expressions. Raises BundleError with the path of one that does not compile."""
        return tuple(self._add(one, f"{path}[{index}]") for index, one in enumerate(expressions))

    def _add(self, expression: str, path: str) -> int:
        expanded = self._expanded(expression, path)
        if expanded not in self._places:
            try:
                self._searched.append(_compiled(expanded))
            except re2.error as error:
                raise BundleError(f"$.memory.content.{path}: does not compile: {_said(error)}") from None
            self._places[expanded] = len(self._places)
        return self._places[expanded]

    def _expanded(self, expression: str, path: str) -> str:
        try:
            return plain_letters(self._lexicon.expand(expression))
        except LexiconError as error:
            raise BundleError(f"$.memory.content.{path}: {error}") from None

    def prefilter(self, share: Callable[[str], float]) -> Prefilter:
        """What says where those added so far may be found; `share` as Prefilter takes it."""
        return Prefilter(self._places, share)

    def search(self, place: int, raw: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Where in these bytes of a text an expression is found first."""
        found = self._searched[place].search(raw, start, end)
        return found.span() if found else None


def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    return re2.compile(f"(?m){rewritten(expression)}", options)


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def rewritten(expression: str) -> str:
    """The expression with words that may be of any script; beside other scripts there is no \\b."""
    out: list[str] = []
    inside = False
    boundary = r"\b" if expression.isascii() else ""
    for part in _PART.findall(expression):
        if inside:
            out.append({r"\w": _WORD, r"\W": _NO_WORD}.get(part, part))
            inside = part != "]"
        else:
            out.append({r"\w": f"[{_WORD}]", r"\W": f"[^{_WORD}]", r"\b": boundary}.get(part, part))
            inside = part[0] == "["
    return "".join(out)
