"""One form of a text with its sentences, and which expressions it may hold at all.

Places are counted in characters and in bytes of UTF-8. Most texts hold hardly one expression, and then no
automaton is asked: RE2's sets over some hundred expressions with bounded gaps build new states for each new
text, milliseconds for 1 KB. FilteredRE2's set knows only strings, those that `requirement` writes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING

import re2

from sluice.detection.content.requirement import RARE_SIGNS, SIGN_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARD_CHARS = 220_000
"""Characters of requirements in one automaton, which RE2 bounds; each costs a pass over the text."""
_GROUPS = re.compile(r"\(\?:|\\.|\[\^?\]?(?:\\.|[^\]])*\]|[|)]|[^\x00-\x7f]")
_SIGNS = bytes(code for code in range(128) if not (chr(code).isalnum() or code == ord("_")))
BLANKS = bytes.maketrans(_SIGNS, b" " * len(_SIGNS))
_SCRIPTS = re.compile(rb"[\x80-\xff]+|[\x00-\x7f]+")
ORDINARY = bytes(code for code in range(256) if chr(code) not in RARE_SIGNS)
_RARE = {ord(sign): f"{SIGN_MARK}{sign}{SIGN_MARK}".encode() for sign in RARE_SIGNS}


def words_and_signs(folded: bytes) -> bytes:
    """The words of a casefolded text in UTF-8 with one blank around each, then each rare sign in it.

    A word of two scripts stands there once more, in parts: for `\\b` RE2 knows ASCII alone.
    """
    signs = set(folded.translate(None, ORDINARY))
    words = b" ".join(folded.translate(BLANKS).split())
    if not words.isascii():
        parted = b" ".join(b" ".join(_SCRIPTS.findall(words)).split())
        words = words if parted == words else b"%b \n %b" % (words, parted)
    return b" %b \n%b" % (words, b"".join(map(_RARE.__getitem__, signs)))


def needs_script(requirement: str) -> bool:
    """Whether only a text with some character above ASCII meets a requirement."""
    needed = [False]
    branches: list[list[bool]] = [[]]
    for part in _GROUPS.findall("" if requirement.isascii() else requirement):
        if part == "(?:":
            needed.append(False)
            branches.append([])
        elif part == "|":
            branches[-1].append(needed[-1])
            needed[-1] = False
        elif part == ")":
            of_group = all((*branches.pop(), needed.pop()))
            needed[-1] |= of_group
        elif not part.isascii():
            needed[-1] |= part[0] != "["
    return all((*branches[0], needed[0]))


class Prefilter:
    """Demands, told by their numbers."""

    __slots__ = ("_above", "_ascii", "always")

    def __init__(self, requirements: list[str]) -> None:
        numbered = list(enumerate(requirements))
        self._ascii = _Shards([pair for pair in numbered if not needs_script(pair[1])])
        self._above = _Shards([pair for pair in numbered if needs_script(pair[1])])
        self.always = sorted((*self._ascii.find_met(b""), *self._above.find_met(b"")))
        """Those that any text meets."""

    def candidates(self, written: bytes) -> list[int]:
        """Those others that a text meets, which is written as words and signs."""
        met = self._ascii.find_met(written)
        if not written.isascii():
            met += self._above.find_met(written)
        return sorted(set(met).difference(self.always))


class _Shards:
    """Automata of some requirements each."""

    __slots__ = ("_shards",)

    def __init__(self, requirements: list[tuple[int, str]]) -> None:
        self._shards: list[tuple[re2.Filter, list[int]]] = []
        options = re2.Options()
        options.log_errors = False
        room = 0
        for number, requirement in requirements:
            if room < len(requirement) or not self._shards:
                self._shards.append((re2.Filter(), []))
                room = SHARD_CHARS
            room -= len(requirement)
            self._shards[-1][0].Add(requirement, options)
            self._shards[-1][1].append(number)
        for shard, _ in self._shards:
            shard.Compile()

    def find_met(self, written: bytes) -> list[int]:
        return [
            numbers[index]
            for shard, numbers in self._shards
            for index in shard.Match(written, potential=True) or ()
        ]


# ruff: noqa: RUF001 - the full stops of other scripts are meant
_END = re.compile(
    r"[.!?:;\n。！？।؟۔](?:"  # first, which is ten times as fast as to try each of these everywhere
    r"(?<=[.!?])(?<![.!?].)[.!?]*+[\"')\]]*+(?=\s++[^\sa-z])(?:[ \t]*+\n)?"  # before a sentence's beginning
    r"|(?<=[.!?])(?<![.!?].)[.!?]*+(?=[^\x00-\x7f])|(?<=[。！？।؟۔])[。！？।؟۔]*+"
    r"|(?<=[.!?:;])[ \t]*+\n"
    r"|(?<=\n)(?:(?>(?:[ \t]*+\r?\n)+)|[ \t]*+(?=[-*•#>|<{\[]|\d{1,3}[.)]\s)))",  # a blank line, an item
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
    for match in islice(_END.finditer(text), MOST_ENDS):
        at, end = match.span()
        if not (text[at] == "." and text[at - 1].isalpha() and _is_abbreviated(text, end)):
            _extend(bounds, text, end)
    _extend(bounds, text, len(text))
    return list(pairwise(bounds))


def _extend(bounds: list[int], text: str, end: int) -> None:
    while end - bounds[-1] > LONGEST_SENTENCE:
        blank = text.rfind(" ", bounds[-1] + LONGEST_SENTENCE // 2, bounds[-1] + LONGEST_SENTENCE)
        bounds.append(blank + 1 if blank > 0 else bounds[-1] + LONGEST_SENTENCE)
    if end > bounds[-1]:
        bounds.append(end)


def _is_abbreviated(text: str, end: int) -> bool:
    return bool(_ABBREVIATION.search(text, max(0, end - _LONGEST_ABBREVIATION), end))


PIECE_CHARS = 160
"""In a sentence or a few short ones hardly an expression is possible; in a page half of them would be."""


class Text:
    """`raw` is what RE2 searches; everything else counts characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.raw = text.encode()

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        return sentences(self.text) or [(0, 0)]

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self._bounds] + [len(self.text)]

    @cached_property
    def _bytes(self) -> list[int]:
        if len(self.raw) == len(self.text):
            return self._starts
        sizes = (len(self.text[start:end].encode()) for start, end in self._bounds)
        return list(accumulate(sizes, initial=0))

    def fold(self) -> bytes:
        """The whole text, casefolded."""
        return self.text.casefold().encode()

    def encode(self) -> bytes:
        """The words and signs of the whole text."""
        return words_and_signs(self.fold())

    def pieces(self) -> Iterator[tuple[int, int, bytes]]:
        """Some sentences at a time: from which byte to which, and what they say, casefolded."""
        starts, ends = self._starts, self._bytes
        first = 0
        for last in range(1, len(starts)):
            if starts[last] - starts[first] >= PIECE_CHARS or last == len(starts) - 1:
                folded = self.text[starts[first] : starts[last]].casefold().encode()
                yield ends[first], ends[last], folded
                first = last

    def sentence_at(self, byte: int) -> tuple[int, int]:
        """The bounds in bytes of the sentence that holds this byte."""
        index = max(0, min(bisect_right(self._bytes, byte), len(self._bytes) - 1) - 1)
        return self._bytes[index], self._bytes[index + 1]

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
