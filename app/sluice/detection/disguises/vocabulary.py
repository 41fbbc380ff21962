"""Words and how common they are: how a word with wrong letters, and a text without spaces, are read.

OWASP LLM Prompt Injection Prevention Cheat Sheet (typoglycemia, leetspeak, spacing); segmentation after
P. Norvig, "Natural Language Corpus Data" (2009): the likeliest row of words, in linear time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SAME = ("il1!|", "o0", "s5$", "e3", "a4@", "t7+", "b8", "g96", "z2")
_KEY = str.maketrans({sign: same[0] for same in _SAME for sign in same})
_SAME_AGAIN = re.compile(r"(.)\1+")
_UNKNOWN_LETTER = 11.0
"""What a letter of no word costs, against the logarithm of a word's rank."""
REMEMBERED_WORDS = 1 << 16
_SHORTEST_GARBLED = 5
_SHORTEST_TURNED = 4
_SHORTEST_FRAGMENT = 3
_SHORTEST_FEW = 2
_LONG_WORD = 4
"""A shorter one must be a common word: it may be an accident in a number or a name ("PI1", "1st")."""
LONGEST = 24
"""Characters; a longer run of letters is no word, and nothing is kept of it: it may be as long as a text."""
_BEGIN = 5


class Hints(NamedTuple):
    """Which disguises may be taken off a word to get one that is looked for."""

    word: str
    garbled: bool
    reversed: bool
    fragment: bool
    shift: int


def key(text: str) -> str:
    """A casefolded text with one sign for all that leetspeak writes alike."""
    return text.translate(_KEY)


class Vocabulary:
    """Words by what disguise leaves of them. `looked_for` are those that some expression needs."""

    __slots__ = (
        "_begins",
        "_by_key",
        "_by_shape",
        "_by_steps",
        "_costs",
        "_fragments",
        "_hints",
        "_leet",
        "_prefixes",
        "_unhinted",
        "_untold",
        "dictionary",
        "looked_for",
        "ranked",
    )

    def __init__(self, ranked: Sequence[str], looked_for: Sequence[str]) -> None:
        """`ranked`: casefolded words, the commonest first."""
        self.ranked = frozenset(ranked)
        order = list(dict.fromkeys((*ranked, *looked_for)))
        self.dictionary = frozenset(order)
        self.looked_for = frozenset(looked_for)
        self._hints = lru_cache(REMEMBERED_WORDS)(self._hints_of)
        self._leet = lru_cache(REMEMBERED_WORDS)(self._find_without_leet)
        self._unhinted = set[str]()
        self._untold = set[str]()
        self._by_key: dict[str, str] = {}
        self._costs: dict[str, float] = {}
        for rank, word in enumerate(order):
            if self._by_key.setdefault(key(word), word) == word:
                self._costs[key(word)] = log(rank + 2) + 2
        self._prefixes = frozenset(
            prefix[:end] for prefix in self._by_key for end in range(1, len(prefix) + 1)
        )
        long = [word for word in order if word in self.looked_for and len(word) >= _SHORTEST_TURNED]
        self._by_shape = {_shape(word): word for word in reversed(long) if len(word) >= _SHORTEST_GARBLED}
        self._by_shape |= {
            _shape(_SAME_AGAIN.sub(r"\1", word)): word for word in long if _SAME_AGAIN.search(word)
        }
        self._by_steps = {_steps(word): word for word in reversed(long) if _may_be_shifted(word)}
        self._begins = frozenset(key(word)[:_BEGIN] for word in long if len(word) >= _BEGIN)
        self._fragments = frozenset(part for word in long for part in _parts(word)) - self.dictionary

    def remove_leet(self, word: str) -> str | None:
        """The word that a leetspelt one stands for."""
        return self._leet(word) if len(word) <= LONGEST else self._find_without_leet(word)

    def _find_without_leet(self, word: str) -> str | None:
        return self._by_key.get(key(word))

    def ungarble(self, word: str) -> str | None:
        """The word that an unknown one is with its inner letters in another order, or one doubled."""
        if len(word) < _SHORTEST_GARBLED:
            return None
        match = self._by_shape.get(_shape(word))
        if match is None and (single := _SAME_AGAIN.sub(r"\1", word)) != word:
            match = self._by_shape.get(_shape(single))
        return match

    def all_hints(self, words: Iterable[str]) -> list[Hints]:
        """What is known of those words, casefolded and of letters alone, that may be others in disguise."""
        matches: list[Hints] = []
        for word in {*words} - self.dictionary - self._unhinted:
            if hints := self.hints(word):
                matches.append(hints)
            else:
                _remember(self._unhinted, word)
        return matches

    def tells_of_leet(self, runs: Iterable[str]) -> bool:
        """Whether one of the runs of letters and leet signs makes a text one of leetspeak: a run that stands
        for a word looked for, or that is too long for a word."""
        for run in {*runs} - self._untold:
            if not run.isalpha() and (len(run) > LONGEST or self.is_evidence(self.remove_leet(run))):
                return True
            _remember(self._untold, run)
        return False

    def is_evidence(self, word: str | None) -> bool:
        """Whether a word that leetspeak stands for is one looked for, and a long or a common one."""
        if word is None or len(word) <= _SHORTEST_FEW or word not in self.looked_for:
            return False
        return len(word) >= _LONG_WORD or word in self.ranked

    def hints(self, word: str) -> Hints | None:
        """What an unknown word, casefolded and of letters alone, may be in disguise; None for nothing."""
        return self._hints(word) if len(word) <= LONGEST else None

    def _hints_of(self, word: str) -> Hints | None:
        shift = self.shift(word)
        garbled = not shift and self.ungarble(word) is not None
        hints = Hints(word, garbled, self.is_reversed(word), self.is_fragment(word), shift)
        return hints if any(hints[1:]) else None

    def shift(self, word: str) -> int:
        """How far along the alphabet a word looked for was moved to give this one; 0 if none was."""
        plain = self._by_steps.get(_steps(word)) if _may_be_shifted(word) else None
        return (ord(word[0]) - ord(plain[0])) % 26 if plain else 0

    def is_reversed(self, word: str) -> bool:
        """Whether it is a word looked for, read from its end."""
        return len(word) >= _SHORTEST_TURNED and word[::-1] in self.looked_for

    def is_fragment(self, word: str) -> bool:
        """Whether it is no word but a word looked for begins or ends with it."""
        return word in self._fragments

    def places(self, run: str) -> list[int]:
        """Where in a casefolded run without spaces a word looked for may begin."""
        keyed = key(run)
        return [at for at in range(len(run) - _BEGIN + 1) if keyed[at : at + _BEGIN] in self._begins]

    def part(self, run: str) -> Iterator[str]:
        """The likeliest words of a run of casefolded letters and leet signs; parts that are not words
        stay."""
        keyed = key(run)
        best: list[tuple[float, int]] = [(0.0, 0)] + [(float("inf"), 0)] * len(run)
        for start in range(len(run)):
            before = best[start][0]
            best[start + 1] = min(best[start + 1], (before + _UNKNOWN_LETTER, start))
            for end in range(start + 1, len(run) + 1):
                part = keyed[start:end]
                if part not in self._prefixes:
                    break
                cost = self._costs.get(part)
                if cost is not None:
                    best[end] = min(best[end], (before + cost, start))
        return self._spell(run, keyed, best)

    def _spell(self, run: str, keyed: str, best: list[tuple[float, int]]) -> Iterator[str]:
        cuts = [len(run)]
        while cuts[-1]:
            cuts.append(best[cuts[-1]][1])
        rest = ""
        for end, start in zip(cuts[-2::-1], cuts[:0:-1], strict=True):
            word = self._by_key.get(keyed[start:end])
            if word is None or (end - start == 1 and not run[start].isalpha()):
                rest += run[start:end]
                continue
            if rest:
                yield rest
                rest = ""
            yield word
        if rest:
            yield rest


def _remember(words: set[str], word: str) -> None:
    """One more word that says nothing. All are forgotten where they are too many."""
    if len(word) <= LONGEST:
        if len(words) >= REMEMBERED_WORDS:
            words.clear()
        words.add(word)


def _shape(word: str) -> str:
    return word[0] + "".join(sorted(word[1:-1])) + word[-1]


def _may_be_shifted(word: str) -> bool:
    return len(word) >= _SHORTEST_GARBLED and word.isascii() and word.isalpha()


def _steps(word: str) -> bytes:
    """The distances from letter to letter, which moving all along the alphabet does not change."""
    letters = word.encode()
    return bytes([(after - before) % 26 for before, after in pairwise(letters)])


def _parts(word: str) -> Iterator[str]:
    if len(word) >= _SHORTEST_GARBLED:
        for cut in range(2, len(word) - 1):
            yield from (part for part in (word[:cut], word[cut:]) if len(part) >= _SHORTEST_FRAGMENT)
