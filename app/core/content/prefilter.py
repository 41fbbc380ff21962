"""Which expressions a text may hold at all, by its words: most texts hold none, and no automaton is asked.

RE2's sets were measured first: over some hundred expressions with bounded gaps each new text builds new states,
milliseconds for 1 KB. Here a word is looked at once and remembered; a text costs a set of its words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from app.core.content.required import MARK, required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.core.content.required import Clause

WORDS = re.compile(r"[0-9a-z_]+|[^\x00-\x7f]+|[!-/:-@\[-^`{-~]+")
"""The words of a casefolded text, which are of one kind of sign each."""
REMEMBERED_WORDS = 1 << 16
REMEMBERED_LENGTH = 40
"""Longer words hardly come again."""
_BEGIN = 3


class Word(NamedTuple):
    """`runs`: the bits of the runs in a word; `keyed`: the expressions that cannot do without one of them."""

    runs: int
    keyed: frozenset[int]


class Prefilter:
    """The runs that expressions cannot do without."""

    __slots__ = ("_always", "_begin", "_clauses", "_keyed", "_short", "word")

    def __init__(self, expressions: Iterable[str], share: Callable[[str], float]) -> None:
        """`share`: how large a part of all words a run is found in; an expression waits for its rarest."""
        bits: dict[str, int] = {}
        self._clauses: list[tuple[int, ...]] = []
        self._keyed: dict[str, set[int]] = defaultdict(set)
        always = []
        for index, expression in enumerate(expressions):
            clauses = required(expression)
            self._clauses.append(tuple(_mask(clause, bits) for clause in clauses))
            if clauses:
                for run in min(clauses, key=lambda clause: sum(map(share, clause))):
                    self._keyed[run].add(index)
            else:
                always.append(index)
        self._always = frozenset(always)
        self._begin: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._short: dict[str, tuple[str, int]] = {}
        for run, bit in bits.items():
            if len(run) < _BEGIN:
                self._short[run] = (run, bit)
            else:
                self._begin[run[:_BEGIN]].append((run, bit))
        remembered = lru_cache(REMEMBERED_WORDS)(self._word)
        self.word = lambda word: (remembered if len(word) <= REMEMBERED_LENGTH else self._word)(word)
        """What is in a word of a casefolded text."""

    def words(self, text: str) -> Word:
        """What is in the words of a text together."""
        runs, keyed = 0, self._always
        for word in map(self.word, set(WORDS.findall(text.casefold()))):
            runs |= word.runs
            if word.keyed:
                keyed |= word.keyed
        return Word(runs, keyed)

    def candidates(self, words: Word) -> frozenset[int]:
        """The places of the expressions that may be found in a text with these words."""
        runs, clauses = words.runs, self._clauses
        return frozenset(place for place in words.keyed if all(runs & clause for clause in clauses[place]))

    def whole_words(self) -> frozenset[str]:
        """The runs that are words of their own."""
        return frozenset(
            run.strip(MARK) for some in self._begin.values() for run, _ in some if run[0] == run[-1] == MARK
        )

    def _word(self, word: str) -> Word:
        """Every run in one word; linear in its length."""
        marked = MARK + word + MARK if word.isascii() else word
        runs, keyed = 0, set[int]()
        for at in range(len(marked)):
            found = self._begin.get(marked[at : at + _BEGIN], [])
            short = [self._short[sign] for end in (1, 2) if (sign := marked[at : at + end]) in self._short]
            for run, bit in found + short:
                if marked.startswith(run, at):
                    runs |= bit
                    keyed |= self._keyed.get(run, set())
        return Word(runs, frozenset(keyed))


def _mask(clause: Clause, bits: dict[str, int]) -> int:
    mask = 0
    for run in clause:
        mask |= bits.setdefault(run, 1 << len(bits))
    return mask
