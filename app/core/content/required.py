"""What a text must hold for an expression to be found in it: runs of letters or signs, none of them optional.

The idea is that of RE2's FilteredRE2 and of Google Code Search (R. Cox, "Regular Expression Matching with a
Trigram Index", 2012). An answer is some clauses; the text must hold one run of each. Where the reading is not
sure it demands less, never more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT = 400
"""The most strings that an expression's part is written out as."""
MARK = "\b"
"""Begins and ends a word of ASCII letters, in runs and in the words that they are looked for in."""
_RUN = re.compile(r"\x08?[0-9a-z_]+\x08?|[^\x00-\x7f]+|[!-/:-@\[-^`{-~]+")
_SEPARATOR = " "
_EDGE_SIGNS = frozenset([MARK, _SEPARATOR])
_TOKEN = re.compile(
    r"\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[0-9a-fA-F]+\}|[0-9a-fA-F]{2})|\\."
    r"|\(\?(?:P?<\w+>|[a-zA-Z-]*:)|\(\?[a-zA-Z-]+\)|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]])*\]"
    r"|[*+?]\??|\{\d+(?:,\d*)?\}\??|\$[a-z][a-z0-9_]*"
    r"|[A-Za-z0-9_ ',@-]{2,}(?![*+?{])|.",
    re.DOTALL,
)
_REPEAT = re.compile(r"[*+?]\??|\{(\d+)(?:,\d*)?\}\??")
_SET = re.compile(r"\[([^\\^\]\[-]{1,4})\]")
_EDGES = frozenset([r"\b", "^", "$", r"\A", r"\z"])
_SEPARATORS = frozenset([r"\W", r"\s", r"\n", r"\t"])

Clause = frozenset[str]


class Part(NamedTuple):
    """A piece of an expression: all the strings that it matches where they are few, else what it needs."""

    exact: frozenset[str] | None
    clauses: tuple[Clause, ...] = ()


_ANYTHING = Part(None)
WORDS_BETWEEN = Part(frozenset([_SEPARATOR]))
"""Something that begins and ends between words, and is not empty."""


def part_of(expression: str, classes: Callable[[str, bool], Part], *, edged: bool = False) -> Part:
    """What an expression matches or needs; `edged`: behind the edge of a word.

    `classes`: the same of a class of the lexicon, by its name and whether it is behind an edge.
    """
    return _Reading(expression, classes).alternatives(edged=edged)


def required(part: Part) -> tuple[Clause, ...]:
    """The clauses of an expression; none where it may match anything."""
    return part.clauses if part.exact is None else _runs(part.exact)


class _Reading:
    """One pass over an expression's tokens."""

    def __init__(self, expression: str, classes: Callable[[str, bool], Part]) -> None:
        self._tokens = _TOKEN.findall(expression)
        self._classes = classes
        self._at = 0

    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def alternatives(self, *, edged: bool) -> Part:
        branches = [self._sequence(edged=edged)]
        while self._next() == "|":
            self._at += 1
            branches.append(self._sequence(edged=edged))
        return branches[0] if len(branches) == 1 else _either(branches)

    def _sequence(self, *, edged: bool) -> Part:
        parts = [Part(frozenset([MARK]))] if edged else []
        while self._next() not in {None, "|", ")"}:
            before = parts[-1].exact if parts else None
            parts.append(self._repeated(edged=before is not None and _edged(before, -1)))
        return _joined(parts)

    def _repeated(self, *, edged: bool) -> Part:
        part = self._single(edged=edged)
        while (token := self._next()) is not None and (repeat := _REPEAT.fullmatch(token)):
            self._at += 1
            part = _times(part, token, int(repeat[1] or 0))
        return part

    def _single(self, *, edged: bool) -> Part:
        token = self._tokens[self._at]
        self._at += 1
        if token[0] == "(" and token[-1] == ")":
            return Part(frozenset([""]))
        if token[0] == "(":
            part = self.alternatives(edged=edged)
            self._at += 1
            return part
        return self._classes(token[1:], edged) if token[0] == "$" and len(token) > 1 else _literal(token)


def _literal(sign: str) -> Part:
    if sign in _EDGES:
        return Part(frozenset([MARK]))
    if sign in _SEPARATORS:
        return Part(frozenset([_SEPARATOR]))
    if few := _SET.fullmatch(sign):
        return Part(frozenset(one.casefold() for one in few[1]))
    if sign[0] == "\\" and not sign[1].isalnum():
        return Part(frozenset([sign[1]]))
    if (len(sign) > 1 and sign[0] in "\\[") or sign == ".":
        return _ANYTHING
    return Part(frozenset([sign.casefold()]))


def _times(part: Part, repeat: str, least: int) -> Part:
    if repeat[0] in "+{" and (repeat[0] == "+" or least):
        return part if part == WORDS_BETWEEN else Part(None, required(part))
    if repeat[0] == "?" and part.exact is not None and len(part.exact) < EXACT:
        return Part(part.exact | {""})
    return _ANYTHING


def _either(branches: list[Part]) -> Part:
    exact = [one.exact for one in branches]
    together = frozenset[str]().union(*(one for one in exact if one is not None))
    if None not in exact and len(together) <= EXACT:
        return Part(together)
    best = [min(required(one), key=_weakness, default=None) for one in branches]
    found = [one for one in best if one is not None]
    return Part(None, (frozenset[str]().union(*found),)) if len(found) == len(best) else _ANYTHING


def _joined(parts: list[Part]) -> Part:
    exact = frozenset([""])
    clauses: tuple[Clause, ...] = ()
    whole = True
    for part in parts:
        if part.exact is not None and len(exact) * len(part.exact) <= EXACT:
            exact = frozenset(before + after for before in exact for after in part.exact)
            continue
        whole = False
        after = part.exact or frozenset([""])
        clauses += _runs(_marked(exact, "", MARK) if _edged(after, 0) else exact) + part.clauses
        exact = _marked(after, MARK, "") if part.exact and _edged(exact, -1) else after
    return Part(exact) if whole else Part(None, clauses + _runs(exact))


def _edged(exact: frozenset[str], place: int) -> bool:
    """Whether every string has the edge of a word at its beginning (0) or end (-1)."""
    return all(one and one[place] in _EDGE_SIGNS for one in exact)


def _marked(exact: frozenset[str], before: str, after: str) -> frozenset[str]:
    return frozenset(before + one + after for one in exact)


def _runs(exact: frozenset[str]) -> tuple[Clause, ...]:
    """The clauses of a few strings: each run of a single one, the longest run of each of several."""
    runs = [_of_string(one) for one in exact]
    if not all(runs):
        return ()
    if len(runs) == 1:
        return tuple(frozenset([run]) for run in runs[0])
    shared = frozenset(runs[0]).intersection(*runs[1:])
    return (*(frozenset([run]) for run in shared), frozenset(max(some, key=_length) for some in runs))


def _of_string(text: str) -> list[str]:
    marked = re.sub(r"(?<=[0-9a-z_])(?=[^0-9a-z_\x08])|(?<=[^0-9a-z_\x08])(?=[0-9a-z_])", MARK, text)
    return [run for run in _RUN.findall(marked) if len(run.strip(MARK)) > 1 or not run.isascii()]


def _weakness(clause: Clause) -> tuple[int, int]:
    return -min(map(_length, clause)), len(clause)


def _length(run: str) -> int:
    return len(run.strip(MARK))
