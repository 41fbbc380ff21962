"""Which expressions a text may hold at all: most texts hold hardly one, and no automaton is asked.

RE2's sets over some hundred expressions with bounded gaps build new states for each new text, milliseconds
for 1 KB. FilteredRE2's set knows only strings, those that `demanded` writes.
"""

from __future__ import annotations

import re

import re2

from app.core.content.demand import TELL, TOLD_SIGNS

SHARD_CHARS = 220_000
"""Characters of demands in one automaton, which RE2 bounds; each costs a pass over the text."""
_GROUPS = re.compile(r"\(\?:|\\.|\[\^?\]?(?:\\.|[^\]])*\]|[|)]|[^\x00-\x7f]")
_SIGNS = bytes(code for code in range(128) if not (chr(code).isalnum() or code == ord("_")))
_BLANKS = bytes.maketrans(_SIGNS, b" " * len(_SIGNS))
_SCRIPTS = re.compile(rb"[\x80-\xff]+|[\x00-\x7f]+")
_UNTOLD = bytes(code for code in range(256) if chr(code) not in TOLD_SIGNS)
_TOLD = {ord(sign): f"{TELL}{sign}{TELL}".encode() for sign in TOLD_SIGNS}


def words_and_signs(folded: bytes) -> bytes:
    """The words of a casefolded text in UTF-8 with one blank around each, then each rare sign in it.

    A word of two scripts stands there once more, in parts: for `\\b` RE2 knows ASCII alone.
    """
    signs = set(folded.translate(None, _UNTOLD))
    words = b" ".join(folded.translate(_BLANKS).split())
    if not words.isascii():
        parted = b" ".join(b" ".join(_SCRIPTS.findall(words)).split())
        words = words if parted == words else b"%b \n %b" % (words, parted)
    return b" %b \n%b" % (words, b"".join(map(_TOLD.__getitem__, signs)))


def needs_script(demand: str) -> bool:
    """Whether only a text with some character above ASCII meets a demand."""
    needed = [False]
    branches: list[list[bool]] = [[]]
    for part in _GROUPS.findall("" if demand.isascii() else demand):
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

    def __init__(self, demands: list[str]) -> None:
        numbered = list(enumerate(demands))
        self._ascii = _Shards([one for one in numbered if not needs_script(one[1])])
        self._above = _Shards([one for one in numbered if needs_script(one[1])])
        self.always = sorted((*self._ascii.met(b""), *self._above.met(b"")))
        """Those that any text meets."""

    def candidates(self, written: bytes) -> list[int]:
        """Those others that a text meets, which is written as words and signs."""
        met = self._ascii.met(written)
        if not written.isascii():
            met += self._above.met(written)
        return sorted(set(met).difference(self.always))


class _Shards:
    """Automata of some demands each."""

    __slots__ = ("_shards",)

    def __init__(self, demands: list[tuple[int, str]]) -> None:
        self._shards: list[tuple[re2.Filter, list[int]]] = []
        options = re2.Options()
        options.log_errors = False
        room = 0
        for number, demand in demands:
            if room < len(demand) or not self._shards:
                self._shards.append((re2.Filter(), []))
                room = SHARD_CHARS
            room -= len(demand)
            self._shards[-1][0].Add(demand, options)
            self._shards[-1][1].append(number)
        for shard, _ in self._shards:
            shard.Compile()

    def met(self, written: bytes) -> list[int]:
        return [
            numbers[index]
            for shard, numbers in self._shards
            for index in shard.Match(written, potential=True) or ()
        ]
