"""One form of a text with its sentences, counted in characters and in bytes of UTF-8."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING

from app.core.content.prefilter import words_and_signs

if TYPE_CHECKING:
    from collections.abc import Iterator


# ruff: noqa: RUF001 - the full stops of other scripts are meant


_END = re.compile(
    r"[.!?:;\n。！？।؟۔](?:"  # first, which is ten times as fast as to try each of these everywhere
    r"(?<=[.!?])(?<![.!?].)[.!?]*+[\"')\]]*+(?=\s++[^\sa-z])(?:[ \t]*+\n)?"  # before a sentence's beginning
    r"|(?<=[.!?])(?<![.!?].)[.!?]*+(?=[^\x00-\x7f])|(?<=[。！？।؟۔])[。！？।؟۔]*+"
    r"|(?<=[.!?:;])[ \t]*+\n"
    r"|(?<=\n)(?:(?:[ \t]*+\r?\n)++|[ \t]*+(?=[-*•#>|<{\[]|\d{1,3}[.)]\s)))",  # a blank line, an item
    re.DOTALL,
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|etc|mr|mrs|ms|dr|no|fig|approx|incl|resp)\.$", re.IGNORECASE
)
_LONGEST_ABBREVIATION = 9
MOST_ENDS = 64 * 1024
"""Of sentences in one text. A text that is read in every form has no room for more; of a longer one, which
can only be withheld, the rest is cut as overlong sentences are. Each takes 2 us: Morse of 900 KB has 160 000.
"""
LONGEST_SENTENCE = 1000
"""Characters. A longer one is cut between words, so that no search is over more."""


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence; together they cover the text."""
    bounds = [0]
    for found in islice(_END.finditer(text), MOST_ENDS):
        at, end = found.span()
        if not (text[at] == "." and text[at - 1].isalpha() and _abbreviated(text, end)):
            _extend(bounds, text, end)
    _extend(bounds, text, len(text))
    return list(pairwise(bounds))


def _extend(bounds: list[int], text: str, end: int) -> None:
    while end - bounds[-1] > LONGEST_SENTENCE:
        blank = text.rfind(" ", bounds[-1] + LONGEST_SENTENCE // 2, bounds[-1] + LONGEST_SENTENCE)
        bounds.append(blank + 1 if blank > 0 else bounds[-1] + LONGEST_SENTENCE)
    if end > bounds[-1]:
        bounds.append(end)


def _abbreviated(text: str, end: int) -> bool:
    return bool(_ABBREVIATION.search(text, max(0, end - _LONGEST_ABBREVIATION), end))


PIECE_CHARS = 160
"""In a sentence or a few short ones hardly an expression is possible; in a page half of them would be."""


class Text:
    """`raw` is what RE2 searches; everything else counts characters."""

    __slots__ = ("_bytes", "_starts", "raw", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.raw = text.encode()
        bounds = sentences(text) or [(0, 0)]
        self._starts = [start for start, _ in bounds] + [len(text)]
        if len(self.raw) == len(text):
            self._bytes = self._starts
        else:
            sizes = (len(text[start:end].encode()) for start, end in bounds)
            self._bytes = list(accumulate(sizes, initial=0))

    def written(self) -> bytes:
        """The words and signs of the whole text."""
        return words_and_signs(self.text.casefold().encode())

    def pieces(self, seen: set[bytes]) -> Iterator[tuple[int, int, bytes]]:
        """Some sentences at a time: from which byte to which, their words and signs; none that were seen."""
        starts, ends = self._starts, self._bytes
        first = 0
        for last in range(1, len(starts)):
            if starts[last] - starts[first] >= PIECE_CHARS or last == len(starts) - 1:
                folded = self.text[starts[first] : starts[last]].casefold().encode()
                if folded not in seen:
                    seen.add(folded)
                    yield ends[first], ends[last], words_and_signs(folded)
                first = last

    def sentence_at(self, byte: int) -> tuple[int, int]:
        """The bounds in bytes of the sentence that holds this byte."""
        place = max(0, min(bisect_right(self._bytes, byte), len(self._bytes) - 1) - 1)
        return self._bytes[place], self._bytes[place + 1]

    def sentences_of(self, start: int, end: int) -> tuple[int, int]:
        """From where the sentence of one character begins to where that of another ends, in characters."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, max(start, end - 1)) - 1
        return self._starts[max(0, first)], self._starts[min(last + 1, len(self._starts) - 1)]

    def character(self, byte: int) -> int:
        """The character that begins at this byte."""
        return byte if len(self.raw) == len(self.text) else len(self.raw[:byte].decode(errors="ignore"))

    def bytes_of(self, start: int, end: int) -> tuple[int, int]:
        """Bounds in characters as bounds in bytes."""
        return self._byte(start), self._byte(end)

    def _byte(self, character: int) -> int:
        return character if len(self.raw) == len(self.text) else len(self.text[:character].encode())
