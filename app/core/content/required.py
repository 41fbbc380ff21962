"""What a text must hold for an expression to be found in it: runs of letters or signs, none of them optional.

The idea is that of RE2's FilteredRE2 and of Google Code Search (R. Cox, "Regular Expression Matching with a
Trigram Index", 2012). An answer is a list of clauses; the text must hold one run of each. Where the reading is
not sure it demands less, never more.
"""

from __future__ import annotations

import re
from typing import NamedTuple

EXACT = 96
"""The most strings that an expression's part is written out as."""
MARK = "\b"
"""Begins and ends a word of ASCII letters, in runs and in the words that they are looked for in."""
_RUN = re.compile(r"\x08?[0-9a-z_]+\x08?|[^\x00-\x7f]+|[!-/:-@\[-^`{-~]+")
_SEPARATOR = " "
_TOKEN = re.compile(
    r"\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[0-9a-fA-F]+\}|[0-9a-fA-F]{2})|\\."
    r"|\(\?(?:P?<\w+>|[a-zA-Z-]*:)|\(\?[a-zA-Z-]+\)|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]])*\]"
    r"|[*+?]\??|\{\d+(?:,\d*)?\}\??|.",
    re.DOTALL,
)
_REPEAT = re.compile(r"[*+?]\??|\{(\d+)(?:,\d*)?\}\??")
_SET = re.compile(r"\[([^\\^\]\[-]{1,4})\]")
_EDGES = frozenset([r"\b", "^", "$", r"\A", r"\z"])
_SEPARATORS = frozenset([r"\W", r"\s", r"\n", r"\t"])

Clause = frozenset[str]


class Part(NamedTuple):
    """A piece of an expression: all the strings that it matches, where they are few, or else what it needs."""

    exact: frozenset[str] | None
    clauses: tuple[Clause, ...] = ()


_ANYTHING = Part(None)


def required(expression: str) -> list[Clause]:
    """The clauses of an expression without class names; none where it may match anything."""
    return list(_needs(_Reading(expression).alternatives()))


class _Reading:
    """One pass over an expression's tokens."""

    def __init__(self, expression: str) -> None:
        self._tokens = _TOKEN.findall(expression)
        self._at = 0

    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def alternatives(self) -> Part:
        branches = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else _either(branches)

    def _sequence(self) -> Part:
        parts = []
        while self._next() not in {None, "|", ")"}:
            parts.append(self._repeated())
        return _joined(parts)

    def _repeated(self) -> Part:
        part = self._single()
        while (token := self._next()) is not None and (repeat := _REPEAT.fullmatch(token)):
            self._at += 1
            part = _times(part, token, int(repeat[1] or 0))
        return part

    def _single(self) -> Part:
        token = self._tokens[self._at]
        self._at += 1
        if token[0] == "(" and token[-1] == ")":
            return Part(frozenset([""]))
        if token[0] == "(":
            part = self.alternatives()
            self._at += 1
            return part
        return _literal(token)


def _literal(token: str) -> Part:
    if token in _EDGES:
        return Part(frozenset([MARK]))
    if token in _SEPARATORS:
        return Part(frozenset([_SEPARATOR]))
    if few := _SET.fullmatch(token):
        return Part(frozenset(sign.casefold() for sign in few[1]))
    if token[0] == "\\" and not token[1].isalnum():
        return Part(frozenset([token[1]]))
    if len(token) > 1 or token == ".":
        return _ANYTHING
    return Part(frozenset([token.casefold()]))


def _times(part: Part, token: str, least: int) -> Part:
    if token[0] in "+{" and (token[0] == "+" or least):
        return part if part.exact == {_SEPARATOR} else Part(None, _needs(part))
    if token[0] == "?" and part.exact is not None and len(part.exact) < EXACT:
        return Part(part.exact | {""})
    return _ANYTHING


def _either(branches: list[Part]) -> Part:
    exact = [one.exact for one in branches]
    together = frozenset[str]().union(*(one for one in exact if one is not None))
    if None not in exact and len(together) <= EXACT:
        return Part(together)
    best = [min(_needs(one), key=_weakness, default=None) for one in branches]
    found = [one for one in best if one is not None]
    return Part(None, (frozenset[str]().union(*found),)) if len(found) == len(best) else _ANYTHING


def _joined(parts: list[Part]) -> Part:
    exact: frozenset[str] | None = frozenset([""])
    clauses: tuple[Clause, ...] = ()
    whole = True
    for part in parts:
        if part.exact is not None and exact is not None and len(exact) * len(part.exact) <= EXACT:
            exact = frozenset(before + after for before in exact for after in part.exact)
            continue
        whole = False
        clauses += _runs(exact) + part.clauses
        exact = part.exact if part.exact is not None else frozenset([""])
    return Part(exact) if whole else Part(None, clauses + _runs(exact))


def _needs(part: Part) -> tuple[Clause, ...]:
    return part.clauses if part.exact is None else _runs(part.exact)


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
