"""Every expression of a library, compiled once, with its word classes; and where each may be found.

`$name` in an expression becomes one of the class's words, `$gap` a few words between. What is kept of a
library that compiled before is compiled when it is first searched for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from sluice.detection.content.expression_requirement import requirement
from sluice.detection.content.requirement import SIGNS, WORDS_BETWEEN, Requirement
from sluice.detection.disguises.letters import plain_letters
from sluice.detection.library_model import LibraryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WORD = r"0-9A-Za-z_\x{80}-\x{10FFFF}"
_NO_WORD = r"\x00-/:-@\[-\^`{-\x7f"
_INSIDE = {r"\w": _WORD, r"\W": _NO_WORD}
_OUTSIDE = {r"\w": f"[{_WORD}]", r"\W": f"[^{_WORD}]"}
_PART = re.compile(
    r"\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[0-9a-fA-F]+\}|[0-9a-fA-F]{2})|\\.|\[\^?\]?|.", re.DOTALL
)


def widen_words(expression: str) -> str:
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
    """`searched`: the expression as RE2 takes it; `requirement`: what a text must hold for it to be found."""

    searched: str
    requirement: Requirement


class Lexicon:
    """The classes by name, each expanded once with edges of words and once without."""

    __slots__ = ("_classes", "_expanded", "_open")

    def __init__(self, classes: Mapping[str, list[str]]) -> None:
        self._classes = classes
        self._expanded = {
            (name, edges): Expanded(widen_words(between), required)
            for name, (between, required) in BUILT_IN.items()
            for edges in (True, False)
        }
        self._open: list[str] = []

    def expand(self, expression: str) -> Expanded:
        """The expression without class names; beside other scripts there is no \\b. Raises LexiconError."""
        whole = self._expand(expression, edges=True)
        return whole if whole.searched.isascii() else self._expand(expression, edges=False)

    def _expand(self, expression: str, *, edges: bool) -> Expanded:
        plain = plain_letters(expression if edges else _BOUNDARY.sub(r"\1", expression))
        searched = _NAME.sub(
            lambda match: self._class(match[1], edges=edges).searched if match[1] else match[0],
            widen_words(plain),
        )
        return Expanded(searched, requirement(plain, lambda name: self._class(name, edges=edges).requirement))

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


class Expressions:
    """Expressions by their place."""

    __slots__ = ("_compile", "_lexicon", "_places", "_requirements", "_searched", "written")

    def __init__(
        self, classes: Mapping[str, list[str]], stored: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """`stored`: what RE2 takes and what a text must hold, by the expression.

        Raises LibraryError with the path of the class that cannot be expanded.
        """
        self._lexicon = Lexicon(classes)
        self._places: dict[str, int] = {}
        self._searched: list[str] = []
        self._compile: dict[int, Any] = {}
        self._requirements: list[str] = []
        self.written: dict[str, tuple[str, str]] = {} if stored is None else dict(stored)
        """What RE2 takes and what a text must hold, by the expression as it is written."""
        for name in classes if stored is None else ():
            self._expand(f"${name}", f"lexicon.{name}")

    def add(self, expressions: list[str], path: str) -> tuple[int, ...]:
        """The places of these expressions. Raises LibraryError with the path of one that does not compile."""
        return tuple(
            self._add(expression, f"{path}[{index}]") for index, expression in enumerate(expressions)
        )

    def requirements(self, places: Iterable[int]) -> list[str]:
        """What a text must hold for the expressions at these places to be found in it."""
        return [self._requirements[index] for index in places]

    def search(self, index: int, raw: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Where in these bytes of a text, which have a line's begin and end, an expression is found first."""
        compiled = self._compile.get(index)
        if compiled is None:
            compiled = self._compile[index] = _compile(self._searched[index], "")
        match = compiled.search(raw[start:end])
        if not match:
            return None
        first, last = match.span()
        return start + first, start + last

    def _add(self, expression: str, path: str) -> int:
        stored = self.written.get(expression)
        searched, requirement = stored or self._new(expression, path)
        if searched not in self._places:
            index = self._places[searched] = len(self._places)
            self._searched.append(searched)
            self._requirements.append(requirement)
            if stored is None:
                self._compile[index] = _compile(searched, path)
        return self._places[searched]

    def _new(self, expression: str, path: str) -> tuple[str, str]:
        expanded = self._expand(expression, path)
        self.written[expression] = expanded.searched, expanded.requirement.text
        return self.written[expression]

    def _expand(self, expression: str, path: str) -> Expanded:
        try:
            return self._lexicon.expand(expression)
        except LexiconError as error:
            raise LibraryError(f"$.memory.content.{path}: {error}") from None


def _compile(expression: str, path: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(f"(?m){expression}", options)
    except re2.error as error:
        message = error.args[0] if error.args else error
        why = message.decode(errors="replace") if isinstance(message, bytes) else message
        raise LibraryError(f"$.memory.content.{path}: does not compile: {why}") from None
