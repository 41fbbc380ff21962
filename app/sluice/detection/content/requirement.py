"""What a text must hold for an expression to be found in it, written over the text's words, piece by piece.

A text's words stand with one blank around each, a mark. `\\bact\\W+as\\b` becomes ` act as `: where it is
sure that signs or the edge of a word are between two pieces, the mark is required. Where it is not, a break
(`.*`) is written and less required, never more: what an expression matches, its requirement finds.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BREAK = ".*"
MARK = " "
_APART = (r"\b", r"\B")
EXACT = 16
"""The most strings that FilteredRE2 keeps whole."""
RARE_SIGNS = '"#$*<=>@[\\]^`{|}~'
"""Rare enough in prose that an expression with one of them requires it: between two of `SIGN_MARK`, or the
string were shorter than FilteredRE2 looks for. Others are only what is between two words."""
SIGN_MARK = "\1"

_WORD, _SCRIPT, _MARKED, _EDGE, _OPEN = "word", "script", "marked", "edge", "open"
"""How a piece begins or ends: with a letter or digit of ASCII, with a character above, with a mark for signs
that are there, with a mark for an edge alone (which other scripts do not have), with a break."""
Kinds = frozenset[str]
AT_OPEN, AT_MARK, AT_EDGE = frozenset([_OPEN]), frozenset([_MARKED]), frozenset([_EDGE])
AT_WORD, AT_SCRIPT = frozenset([_WORD]), frozenset([_SCRIPT])
SOME_SIGN, EDGE_OF_WORD, EDGE_OF_LINE = " ", "\b", "\n"
_EDGES = frozenset([EDGE_OF_WORD, EDGE_OF_LINE])
_MARKS = frozenset([_MARKED, _EDGE])


class Requirement(NamedTuple):
    """`text`: RE2 over a text's words; `first` and `last`: how it may begin and end; `empty`: or be nothing.

    `choices`: the same, where it is one of many strings.
    """

    text: str
    first: Kinds
    last: Kinds
    empty: bool = False
    choices: tuple[str, ...] = ()


ANYTHING = Requirement(BREAK, AT_OPEN, AT_OPEN)
NOTHING = Requirement("", frozenset(), frozenset(), empty=True)
WORDS_BETWEEN = Requirement(MARK + BREAK + MARK, AT_MARK, AT_MARK)
"""Signs, a few words and signs."""
SIGNS = Requirement(MARK, AT_MARK, AT_MARK)


def one_of(choices: tuple[str, ...], left: str = "", right: str = "") -> str:
    """One of these strings between marks.

    RE2 keeps a set of strings whole, with what stands beside it, only while it is small, and takes out what
    neighbours begin with: so it gets some small sets that begin differently, with edges that it ignores.
    """
    if not left and not right:
        return f"(?:{'|'.join(choices)})"
    sets: list[list[str]] = []
    room = 0
    for choice in choices:
        room -= strings_of(choice)
        if room < 0 or not sets:
            sets.append([])
            room = EXACT - strings_of(choice)
        sets[-1].append(choice)
    written = (_APART[number % 2] + f"{left}(?:{'|'.join(some)}){right}" for number, some in enumerate(sets))
    return f"(?:{'|'.join(written)})"


def strings_of(text: str) -> int:
    """About how many strings a text stands for."""
    return 1 if "(" not in text and "[" not in text else min(EXACT, text.count("|") * 2 + 2)


class Sequence:
    """Pieces one after the other, and the signs between them."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._choices: tuple[str, ...] = ()
        self._left = ""
        self._first: Kinds = frozenset()
        self._last: Kinds = frozenset()
        self._empty = True
        self._between = _Between()

    def add(self, part: Requirement | str, least: int, most: int) -> None:
        """One more piece, so many times."""
        if isinstance(part, str):
            self._between.add_sign(part, least)
        elif part.first == AT_MARK and not least and most > 1:
            self._between.add_repeated()
        else:
            self._add_piece(_repeat(part, least, most))

    def _add_piece(self, part: Requirement) -> None:
        if self._between.any:
            self._emit(self._between.find_unmet(self._last, part))
        elif (self._last & _MARKS and part.first & _MARKS) or _clash(self._last, part.first):
            self._emit(BREAK)
        self._append(part)
        if self._empty:
            self._first |= part.first
        self._empty &= part.empty
        self._last = part.last | self._last if part.empty else part.last

    def _append(self, part: Requirement) -> None:
        """The piece; one of many takes the marks beside it into itself."""
        if part.choices and not part.empty:
            self._left = MARK if self._out and self._out[-1][-1:] == MARK else ""
            self._out += [BREAK] if self._left else []
            self._choices = part.choices
            self._out.append(one_of(part.choices, self._left))
        else:
            self._choices = ()
            self._out.append(part.text)

    def _emit(self, text: str) -> None:
        if text:
            if self._choices and text[0] == MARK:
                self._out[-1:] = [one_of(self._choices, self._left, MARK), BREAK]
            self._choices = ()
            mark = AT_MARK if self._between.consumed else AT_EDGE
            if self._empty:
                self._first |= mark if text[0] == MARK else AT_OPEN
            self._empty = False
            self._last = mark if text[-1] == MARK else AT_OPEN
            self._out.append(text)
        self._between = _Between()

    def whole(self) -> Requirement:
        """The requirement of all the pieces together."""
        if self._between.any:
            self._emit(self._between.find_unmet(self._last, None))
        choices = self._choices if len(self._out) == 1 else ()
        return Requirement("".join(self._out), self._first, self._last, self._empty, choices)


class _Between:
    """Signs, edges of words and repeated pieces that begin with signs, between two pieces."""

    __slots__ = ("_broken", "_forced", "_forced_last", "_rare", "any", "consumed")

    def __init__(self) -> None:
        self.any = self.consumed = self._forced = self._forced_last = self._broken = False
        self._rare: list[str] = []

    def add_sign(self, sign: str, least: int) -> None:
        """A sign or some sign, or an edge."""
        self.any = True
        if sign in _EDGES or least:
            self._forced = self._forced_last = True
            self.consumed |= sign != EDGE_OF_WORD
            if sign in RARE_SIGNS:
                self._rare.append(re.escape(SIGN_MARK + sign + SIGN_MARK))

    def add_repeated(self) -> None:
        """Signs and whatever follows them, any number of times."""
        self.any = self._broken = True
        self._forced_last = False

    def find_unmet(self, last: Kinds, following: Requirement | None) -> str:
        """What this requires after a piece that ends so and before the next one, if there is one."""
        first = following.first if following else frozenset[str]()
        if not self._forced:
            free = following and not following.empty and last and not self._broken
            return "(?: |)" if free and not (last | first) & _MARKS else BREAK
        if not self.consumed and _SCRIPT in last | first:
            return BREAK
        left = MARK if not last & _MARKS else ""
        right = MARK if self._forced_last and not first & _MARKS else ""
        if self._broken or self._rare:
            return f"{left}{''.join(BREAK + word for word in self._rare)}{BREAK}{right}"
        if first & _MARKS:
            serves = left and following and not following.empty and first <= _MARKS | AT_OPEN
            return "" if serves else left + BREAK
        if last & _MARKS:
            return "" if last <= _MARKS else BREAK + MARK
        return MARK


def _clash(last: Kinds, first: Kinds) -> bool:
    return (_EDGE in last and _SCRIPT in first) or (_SCRIPT in last and _EDGE in first)


def _repeat(part: Requirement, least: int, most: int) -> Requirement:
    if most == 1:
        return part if least else part._replace(text=f"(?:{part.text}|)", empty=True, choices=())
    if least:
        return Requirement(part.text + BREAK, part.first, AT_OPEN, part.empty)
    return Requirement(BREAK, AT_OPEN, AT_OPEN, empty=True)
