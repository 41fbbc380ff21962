"""Many globs and kinds of targets as one question about some words.

Nearly all globs in patterns are a literal, a beginning, an end or a middle, which Python's own string
methods answer. What is left becomes an expression that cannot go back: what stands between two stars has a
fixed length, so its first place is as good as any later one, and the group around it is atomic. The kinds are
not of that form; RE2 answers them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import re2

from app.core.commands.patterns.argument_kinds import KINDS, kinds_among, kinds_of
from app.core.foundation.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_PARTS = re.compile(r"(\*+|\?|\[[^\]]+\])")
_SPECIAL = frozenset("*?[")


class Globs:
    """Whether a word in lower case matches any of the alternatives."""

    __slots__ = (
        "_all",
        "_ends",
        "_exact",
        "_kinds",
        "_least",
        "_middles",
        "_mixed",
        "_others",
        "_starts",
        "_unlike",
    )

    def __init__(self, texts: Iterable[str]) -> None:
        """`texts`: globs and `@kinds`, with `|` between alternatives inside one text.

        Raises BundleError for brackets that are no set of characters.
        """
        exact: set[str] = set()
        starts: list[str] = []
        ends: list[str] = []
        middles: list[str] = []
        others: list[str] = []
        mixed: list[str] = []
        kinds: set[str] = set()
        for one in (one.lower() for text in texts for one in text.split("|")):
            inner = one.strip("*")
            before, at, kind = one.rpartition("@")
            if one in KINDS:
                kinds.add(one)
            elif at + kind in KINDS:
                mixed.append(f"{_before(before)}(?:{KINDS[at + kind]})")
            elif _SPECIAL.intersection(inner):
                others.append(one)
            elif inner == one:
                exact.add(one)
            elif one[0] != "*":
                starts.append(inner)
            else:
                (middles if one[-1] == "*" else ends).append(inner)
        self._all = "" in starts or "" in middles or "" in ends
        self._exact, self._starts, self._ends = frozenset(exact), tuple(starts), tuple(ends)
        self._middles = tuple(middles)
        self._others = _compiled(others).fullmatch if others else None
        self._least = min(map(_least, others + middles), default=0)
        self._mixed = re2.compile("(?s)" + "|".join(mixed)).fullmatch if mixed else None
        self._kinds = kinds_among(kinds)
        self._unlike = bool(starts or ends or middles or others or mixed or kinds)

    def match(self, word: str) -> bool:
        """Whether the whole of `word` matches an alternative."""
        return self._all or word in self._exact or (self._unlike and self._resembles(word))

    def match_any(self, words: Collection[str]) -> bool:
        """Whether any of the words matches."""
        if not words:
            return False
        if self._all or not self._exact.isdisjoint(words):
            return True
        if self._unlike:
            for word in words:
                if self._resembles(word):
                    return True
        return False

    def _resembles(self, word: str) -> bool:
        return (
            word.startswith(self._starts)
            or word.endswith(self._ends)
            or (len(word) >= self._least and self._within(word))
            or (self._kinds != 0 and self._kinds & kinds_of(word) != 0)
            or (self._mixed is not None and self._mixed(word) is not None)
        )

    def _within(self, word: str) -> bool:
        for part in self._middles:
            if part in word:
                return True
        return self._others is not None and self._others(word) is not None


def _least(glob: str) -> int:
    """The length of the shortest word that the glob matches."""
    return len(_PARTS.sub(lambda part: "" if part[0][0] == "*" else "?", glob))


def _expression(glob: str) -> str:
    segments = [""]
    for part in _PARTS.split(glob):
        if part[:1] == "*":
            segments.append("")
        else:
            segments[-1] += _fixed(part)
    if len(segments) == 1:
        return segments[0]
    first, *between, last = segments
    return first + "".join(f"(?>.*?{one})" for one in between) + ".*" + last


def _fixed(part: str) -> str:
    if part == "?":
        return "."
    if part[:1] == "[" and part[-1:] == "]":
        negated, members = ("^", part[2:]) if part[1] == "!" else ("", part[1:])
        return f"[{negated}" + members.replace("[", r"\[")
    return re.escape(part)


def _before(glob: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(part[:1]) or re2.escape(part) for part in _PARTS.split(glob))


def _compiled(globs: list[str]) -> re.Pattern[str]:
    try:
        return re.compile("|".join(f"(?:{_expression(glob)})" for glob in globs), re.DOTALL)
    except re.error as error:
        raise BundleError(f"no glob among {globs}: {error}") from error
