"""Many globs and kinds of targets as one question about a word, answered without RE2 where that is possible.

Nearly all globs in patterns are a literal, a beginning, an end or a middle; Python's own string methods
answer those in a tenth of the time that a call into RE2 takes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import re2

from app.core.gate1.argument_kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

_WILD = {"*": ".*", "?": "."}
_PARTS = re.compile(r"(\*|\?|\[[^\]]+\])")
_SPECIAL = frozenset("*?[")
_MARKS_OF_TARGETS = re.compile(r"[/~$.*:%\\{_]")
"""No kind of target is a word without one of these."""


class Globs:
    """Whether a word in lower case matches any of the alternatives."""

    __slots__ = ("_all", "_ends", "_exact", "_kinds", "_middle", "_others", "_starts")

    def __init__(self, texts: Iterable[str]) -> None:
        """`texts`: globs and `@kinds`, with `|` between alternatives inside one text."""
        exact: set[str] = set()
        starts: list[str] = []
        ends: list[str] = []
        middles: list[str] = []
        others: list[str] = []
        kinds: list[str] = []
        for one in (one.lower() for text in texts for one in text.split("|")):
            inner = one.strip("*")
            if _kind(one):
                kinds.append(_kind(one))
            elif _SPECIAL.intersection(inner):
                others.append(_expression(one))
            elif inner == one:
                exact.add(one)
            elif one[0] != "*":
                starts.append(inner)
            else:
                (middles if one[-1] == "*" else ends).append(inner)
        self._all = "" in starts or "" in middles or "" in ends
        self._exact, self._starts, self._ends = frozenset(exact), tuple(starts), tuple(ends)
        self._middle = re.compile("|".join(map(re.escape, middles))).search if middles else None
        self._others, self._kinds = _either(others), _either(kinds)

    def match(self, word: str) -> bool:
        """Whether the whole of `word` matches an alternative."""
        return (
            self._all
            or word in self._exact
            or word.startswith(self._starts)
            or word.endswith(self._ends)
            or (self._middle is not None and self._middle(word) is not None)
            or (self._others is not None and self._others.fullmatch(word) is not None)
            or (
                self._kinds is not None
                and _MARKS_OF_TARGETS.search(word) is not None
                and self._kinds.fullmatch(word) is not None
            )
        )


def _kind(text: str) -> str:
    before, at, kind = text.rpartition("@")
    return f"{_expression(before)}(?:{KINDS[at + kind]})" if at + kind in KINDS else ""


def _expression(text: str) -> str:
    return "".join(_WILD.get(part) or _literal(part) for part in _PARTS.split(text))


def _literal(part: str) -> str:
    if part[:1] == "[" and part[-1:] == "]":
        return part.replace("[!", "[^", 1)
    return str(re2.escape(part))


def _either(forms: list[str]) -> re2._Regexp | None:
    return re2.compile("(?s)" + "|".join(f"(?:{form})" for form in forms)) if forms else None
