"""Which expressions a text may hold at all, by its words: most texts hold none, and no automaton is asked.

RE2's sets over some hundred expressions with bounded gaps build new states for each new text, milliseconds
for 1 KB. Here a word is looked at once and remembered; a text costs a set of its words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from app.core.content.required import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.core.content.required import Clause

WORDS = re.compile(r"[0-9a-z_]+|[^\x00-\x7f]+|[!-/:-@\[-^`{-~]+")
"""The words of a casefolded text, which are of one kind of sign each."""
REMEMBERED_WORDS = 1 << 16
REMEMBERED_LENGTH = 40
"""Longer words hardly come again."""
_BEGIN = 3


class Word(NamedTuple):
    """`met`: the bits of the clauses that a word meets; `keyed`: the expressions that wait for it."""

    met: int
    keyed: frozenset[int]


class _Run(NamedTuple):
    run: str
    met: int
    keyed: frozenset[int]


_NOTHING = Word(0, frozenset())


class Prefilter:
    """The runs that some expressions cannot do without, by the places of the expressions."""

    __slots__ = ("_begun", "_needs", "_remembered", "_short", "always")

    def __init__(self, expressions: Mapping[int, tuple[Clause, ...]], share: Callable[[str], float]) -> None:
        """`share`: how large a part of all words a run is found in; an expression waits for its rarest."""
        bits: dict[Clause, int] = {}
        keyed: dict[str, set[int]] = defaultdict(set)
        masks: dict[str, int] = defaultdict(int)
        always = []
        self._needs: dict[int, int] = {}
        for place, clauses in expressions.items():
            self._needs[place] = sum({bits.setdefault(clause, 1 << len(bits)) for clause in clauses})
            if not clauses:
                always.append(place)
                continue
            for run in min(clauses, key=lambda clause: sum(map(share, clause))):
                keyed[run].add(place)
        for clause, bit in bits.items():
            for run in clause:
                masks[run] |= bit
        self.always = frozenset(always)
        """The places of the expressions that any text may hold."""
        self._short: dict[str, list[_Run]] = defaultdict(list)
        self._begun: dict[str, list[_Run]] = defaultdict(list)
        for run, mask in masks.items():
            begun = self._begun if len(run) >= _BEGIN else self._short
            begin = run[: _BEGIN if len(run) >= _BEGIN else 1]
            begun[begin].append(_Run(run, mask, frozenset(keyed.get(run, ()))))
        self._remembered = lru_cache(REMEMBERED_WORDS)(self._word)

    def word(self, word: str) -> Word:
        """What is in a word of a casefolded text."""
        return self._remembered(word) if len(word) <= REMEMBERED_LENGTH else self._word(word)

    def words(self, text: str) -> Word:
        """What is in the words of a text together."""
        met, keyed = 0, set[int]()
        remembered = self._remembered
        for one in set(WORDS.findall(text.casefold())):
            word = remembered(one) if len(one) <= REMEMBERED_LENGTH else self._word(one)
            if word is not _NOTHING:
                met |= word.met
                keyed.update(word.keyed)
        return Word(met, frozenset(keyed))

    def candidates(self, words: Word) -> frozenset[int]:
        """The places of the expressions that may be found in a text with these words."""
        met, needs = words.met, self._needs
        return frozenset([place for place in words.keyed if met & (need := needs[place]) == need])

    def whole_words(self) -> frozenset[str]:
        """The runs that are words of their own."""
        runs = (one.run for some in self._begun.values() for one in some)
        return frozenset(run.strip(MARK) for run in runs if run[0] == run[-1] == MARK)

    def _word(self, word: str) -> Word:
        """Every run in one word; linear in its length."""
        marked = MARK + word + MARK if word.isascii() else word
        found = [
            one
            for at in range(len(marked))
            for one in (*self._begun.get(marked[at : at + _BEGIN], ()), *self._short.get(marked[at], ()))
            if marked.startswith(one.run, at)
        ]
        if not found:
            return _NOTHING
        met = 0
        for one in found:
            met |= one.met
        return Word(met, frozenset[int]().union(*(one.keyed for one in found)))
