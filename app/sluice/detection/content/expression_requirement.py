"""Reads an expression's requirement: what a text must hold for the expression to be found in it.

RE2's FilteredRE2 tells from strings that none of an expression's matches can do without whether a text may
hold one (R. Cox, "Regular Expression Matching with a Trigram Index", 2012). It knows no words, so `act` is in
`fact`, and it loses what stands on both sides of a \\W+. So each expression is read once and written over a
text whose words have one blank between them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from sluice.detection.content.requirement import (
    ANYTHING,
    AT_SCRIPT,
    AT_WORD,
    BREAK,
    EDGE_OF_LINE,
    EDGE_OF_WORD,
    EXACT,
    NOTHING,
    SOME_SIGN,
    Requirement,
    Sequence,
    one_of,
    strings_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[0-9a-fA-F]+\}|[0-9a-fA-F]{2})|\\."
    r"|\(\?(?:P?<\w+>|[a-zA-Z-]*:)|\(\?[a-zA-Z-]+\)|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]])*\]"
    r"|[*+?]\??|\{\d+(?:,\d*)?\}\??|\$[a-z][a-z0-9_]*|[0-9A-Za-z_]{2,}(?![*+?{])|.",
    re.DOTALL,
)
_REPEAT = re.compile(r"[*+?]\??|\{(\d+)(?:,(\d*))?\}\??")
_ASCII = "".join(map(chr, range(128)))
_FEW = 4
_WORDS = {r"\w": AT_WORD | AT_SCRIPT, r"\d": AT_WORD}
_ZERO_WIDTH = {r"\b": EDGE_OF_WORD, **dict.fromkeys(["^", "$", r"\A", r"\z"], EDGE_OF_LINE)}
_SEPARATORS = frozenset([r"\W", r"\s", r"\n", r"\t", r"\r"])


def requirement(expression: str, classes: Callable[[str], Requirement]) -> Requirement:
    """The requirement of an expression; `classes` gives that of a class of the lexicon by its name."""
    return _Reading(expression, classes).alternatives()


class _Reading:
    """One pass over an expression's tokens."""

    def __init__(self, expression: str, classes: Callable[[str], Requirement]) -> None:
        self._tokens = _TOKEN.findall(expression)
        self._classes = classes
        self._at = 0

    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def alternatives(self) -> Requirement:
        branches = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        choices = tuple(
            dict.fromkeys(text for branch in branches for text in branch.choices or (branch.text,))
        )
        return Requirement(
            one_of(choices),
            frozenset[str]().union(*(branch.first for branch in branches)),
            frozenset[str]().union(*(branch.last for branch in branches)),
            any(branch.empty for branch in branches),
            choices if sum(map(strings_of, choices)) > EXACT else (),
        )

    def _sequence(self) -> Requirement:
        sequence = Sequence()
        while (token := self._next()) not in {None, "|", ")"}:
            self._at += 1
            least, most = 1, 1
            part = self._single(token or "")
            while (following := self._next()) is not None and (repeat := _REPEAT.fullmatch(following)):
                self._at += 1
                least, most = _times(repeat)
            sequence.add(part, least, most)
        return sequence.whole()

    def _single(self, token: str) -> Requirement | str:
        """The requirement of one token, or the signs it stands for, or a place between characters."""
        if token[0] == "(" and token[-1] == ")":
            return NOTHING
        if token[0] == "(":
            part = self.alternatives()
            self._at += 1
            return part
        if token[0] == "$" and len(token) > 1:
            return self._classes(token[1:])
        return _require_token(token)


def _times(repeat: re.Match[str]) -> tuple[int, int]:
    sign = repeat[0][0]
    if sign == "{":
        return int(repeat[1]), 1 if repeat[2] is None and repeat[1] == "1" else 2
    return (1 if sign == "+" else 0), (1 if sign == "?" else 2)


@cache
def _require_token(token: str) -> Requirement | str:
    if token in _ZERO_WIDTH:
        return _ZERO_WIDTH[token]
    if token[0] == "\\" and not token[1].isalnum():
        return _require_sign(token[1])
    if token[0] in "\\[.":
        return _require_class(token)
    return _require_sign(token) if len(token) == 1 else Requirement(token.casefold(), AT_WORD, AT_WORD)


def _require_sign(sign: str) -> Requirement | str:
    if not sign.isascii():
        return Requirement(sign.casefold(), AT_SCRIPT, AT_SCRIPT)
    return Requirement(sign.casefold(), AT_WORD, AT_WORD) if sign.isalnum() or sign == "_" else sign


def _require_class(token: str) -> Requirement | str:
    if token in _SEPARATORS:
        return SOME_SIGN
    if token in {r"\w", r"\d"}:
        return Requirement(BREAK, _WORDS[token], _WORDS[token])
    if (
        not token.startswith("[")
        or len(token) == 1
        or not token.isascii()
        or re.search(r"\[:|\\[pPxDSQ]", token)
    ):
        return ANYTHING
    of = re.compile(token, re.ASCII)
    signs = {sign.casefold() for sign in _ASCII if of.match(sign)}
    others = token[1] == "^" and r"\w" not in token
    if not any(sign.isalnum() or sign == "_" for sign in signs):
        return ANYTHING if others or not signs else SOME_SIGN
    if others or r"\w" in token or not all(sign.isalnum() or sign == "_" for sign in signs):
        return ANYTHING
    return Requirement(token.casefold() if len(signs) <= _FEW else BREAK, AT_WORD, AT_WORD)
