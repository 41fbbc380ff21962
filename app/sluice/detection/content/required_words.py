"""Which words a text of ASCII must hold for a requirement to be met: a question for a dictionary.

An automaton of requirements is large, and a short text walks through states of it that are in no cache of the
processor any more. Most short texts lack a word of every requirement. Each requirement is some clauses, one
of whose words must be in the text; each word has bits that say which clauses of which requirements it meets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache, reduce
from itertools import chain, product
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.detection.content.requirement import BREAK, MARK, SIGN_MARK
from sluice.detection.content.text import BLANKS, ORDINARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CLAUSES = 8
"""Of a requirement, the rarest ones. More leave out hardly more texts."""
BEGIN = 3
SHORTEST = 2
"""Characters by which a part of a word is looked up, at most and at least; clauses have no shorter parts."""
LONGEST_WORD = 24
"""Bytes. Nothing is kept of a longer one: it may be as long as a text."""
REMEMBERED_WORDS = 1 << 14
_HALVES = (CLAUSES // 2, CLAUSES // 4, CLAUSES // 8)
"""How far rows of bits are apart that are laid on each other until one row is left."""
_SIGNS = [bytes([code]) for code in range(128)]
_SPELLINGS = 8
_GROUP = "(?:"
_SIGN = re.compile(f"{SIGN_MARK}.{SIGN_MARK}", re.DOTALL)
_TOKEN = re.compile(r"[^\\(\[.|)]+|\(\?:[^()\\\[.]*\)|\\.|\(\?:|\[[^\]]*\]|\.\*|.", re.DOTALL)
_LETTERS = re.compile(r"\[\w+\]", re.ASCII)


class Part(NamedTuple):
    """A word, or the part of one with which it may go on to the left or to the right."""

    text: str
    left: bool
    right: bool


Clause = frozenset[Part]
"""One of these must be in the text."""


class _Choice(tuple["_Row", ...]):
    """Rows of which one must be met."""

    __slots__ = ()


_Row = tuple["str | _Choice | None", ...]
"""Strings, choices and breaks (None), one after the other."""


Clauses = list["list[Clause] | None"]
"""Of each requirement the rarest clauses, all of which a text of ASCII must meet; None: it meets none."""


def list_clauses(requirements: Iterable[str]) -> Clauses:
    """The clauses of each requirement."""
    return [_clauses(_RequirementReading(text).row(), left=False, right=False) for text in requirements]


def write_clauses(every: Clauses) -> list[Any]:
    """Clauses in JSON's types, each clause and each part once: many requirements share them."""
    parts: dict[Part, int] = {}
    order = dict.fromkeys(chain.from_iterable(row or () for row in every))
    numbers = {clause: number for number, clause in enumerate(order)}
    rows = [None if row is None else [numbers[clause] for clause in row] for row in every]
    members = [[parts.setdefault(part, len(parts)) for part in sorted(clause)] for clause in numbers]
    return [[[*part] for part in parts], members, rows]


def read_clauses(written: list[Any]) -> Clauses:
    """The clauses that `write_clauses` wrote."""
    parts = [Part(*part) for part in written[0]]
    clauses = [frozenset([parts[number] for number in member]) for member in written[1]]
    return [None if row is None else [clauses[number] for number in row] for row in written[2]]


class _RequirementReading:
    """One pass over a requirement as `requirement.py` writes it."""

    def __init__(self, requirement: str) -> None:
        self._tokens = _TOKEN.findall(requirement)
        self._at = 0

    def row(self) -> _Row:
        """What stands in a row up to the next `|` or `)`; short choices are spelt out."""
        row: list[str | _Choice | None] = []
        spelt = [""]
        while self._at < len(self._tokens) and (token := self._tokens[self._at]) not in {"|", ")"}:
            self._at += 1
            if token in {r"\b", r"\B"}:
                continue
            item = self._item(token)
            further = _spelt(item)
            if further and len(spelt) * len(further) <= _SPELLINGS:
                spelt = ["".join(pair) for pair in product(spelt, further)]
                continue
            row += [*_item_of(spelt), *([] if further else [item])]
            spelt = list(further or [""])
        return (*row, *_item_of(spelt))

    def _item(self, token: str) -> str | _Choice | None:
        if token == _GROUP:
            rows = [self.row()]
            while self._tokens[self._at] == "|":
                self._at += 1
                rows.append(self.row())
            self._at += 1
            return _Choice(rows)
        if token[0] == "\\":
            return None if token[1].isalnum() else token[1]
        if token[-1] == ")":
            return _Choice((choice,) if choice else () for choice in token[3:-1].split("|"))
        if _LETTERS.fullmatch(token):
            return _Choice((character,) for character in token[1:-1])
        return None if token in {BREAK, "."} or token[0] == "[" else token


def _spelt(item: str | _Choice | None) -> list[str] | None:
    """Every string that it stands for, if these are few; else None."""
    if isinstance(item, str):
        return [item]
    if item is None or len(item) > _SPELLINGS:
        return None
    spelt: list[str] = []
    for row in item:
        if len(row) > 1 or (row and not isinstance(row[0], str)):
            return None
        spelt.append(str(row[0]) if row else "")
    return spelt


def _item_of(spelt: list[str]) -> list[str | _Choice | None]:
    if len(spelt) == 1:
        return [spelt[0]] if spelt[0] else []
    return [_Choice((choice,) if choice else () for choice in spelt)]


def _clauses(row: _Row, *, left: bool, right: bool) -> list[Clause] | None:
    """`left`, `right`: whether a mark is beside the row."""
    parts = set[Clause]()
    last = len(row) - 1
    for index, item in enumerate(row):
        before = left if index == 0 else _is_marked(row[index - 1], -1)
        after = right if index == last else _is_marked(row[index + 1], 0)
        if isinstance(item, str):
            if not item.isascii():
                return None
            parts.update(_read_string(item, left=before, right=after))
        elif item is not None:
            met = _list_clauses(item, left=before, right=after)
            if met is None:
                return None
            parts.update(met)
    return sorted(parts, key=_commonness)[:CLAUSES]


@lru_cache(REMEMBERED_WORDS)
def _list_clauses(item: _Choice, *, left: bool, right: bool) -> tuple[Clause, ...] | None:
    """The clauses of a choice; many requirements have the same ones, the classes of a lexicon."""
    options = [_clauses(choice, left=left, right=right) for choice in item]
    met = [option for option in options if option is not None]
    return tuple(_read_choice(met)) if met else None


def _is_marked(item: str | _Choice | None, end: int) -> bool:
    """Whether it begins (0) or ends (-1) with a mark in any case."""
    if item is None or isinstance(item, str):
        return item is not None and item[end] == MARK
    return all(row and _is_marked(row[end], end) for row in item)


def _read_string(text: str, *, left: bool, right: bool) -> Iterator[Clause]:
    words = text.split(MARK)
    for index, word in enumerate(words):
        begins, ends = left or index > 0, right or index < len(words) - 1
        if _SIGN.fullmatch(word):
            yield frozenset([Part(word.strip(SIGN_MARK), left=False, right=False)])
        elif word and SIGN_MARK not in word and (len(word) >= SHORTEST or (begins and ends)):
            yield frozenset([Part(word, not begins, not ends)])


def _read_choice(options: list[list[Clause]]) -> Iterator[Clause]:
    """Clauses of a choice: one of each option, the rarest together, then the next."""
    for index in range(max(map(len, options)) if all(options) else 0):
        yield frozenset[Part]().union(*(option[min(index, len(option) - 1)] for option in options))


def _commonness(clause: Clause) -> tuple[float, list[Part]]:
    """An estimate from the lengths of the words; the words themselves, so that the order is certain."""
    return sum(4.0 ** -len(part.text) * (1 + 3 * (part.left + part.right)) for part in clause), sorted(clause)


class RequiredWords:
    """Requirements by the words of their clauses.

    What a word meets is one number: a row of bits for each place of a clause, a bit in it for each
    requirement. A text's words are so joined in one step each.
    """

    __slots__ = (
        "_begins",
        "_cached",
        "_count",
        "_first_letters",
        "_inner",
        "_last_letters",
        "_longest",
        "_open",
        "_prefixes",
        "_suffixes",
        "_whole",
    )

    def __init__(self, every: Clauses) -> None:
        self._count = len(every)
        self._open = 0
        met: defaultdict[Part, int] = defaultdict(int)
        for number, clauses_found in enumerate(every):
            for index in range(CLAUSES if clauses_found is not None else 0):
                bit = 1 << (index * self._count + number)
                if index >= len(clauses_found or ()):
                    self._open |= bit
                for part in chain.from_iterable((clauses_found or [])[index : index + 1]):
                    met[part] |= bit
        self._whole = _select_by_ends(met, left=False, right=False)
        self._prefixes = _select_by_ends(met, left=False, right=True)
        self._suffixes = _select_by_ends(met, left=True, right=False)
        self._first_letters = {word[:SHORTEST] for word in self._prefixes}
        self._last_letters = {word[-SHORTEST:] for word in self._suffixes}
        self._longest = max(map(len, (*self._prefixes, *self._suffixes)), default=0)
        self._inner: defaultdict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
        for word, bits in _select_by_ends(met, left=True, right=True).items():
            self._inner[word[:BEGIN]].append((word, bits))
        self._begins = {*map(len, self._inner)}
        self._cached: dict[bytes, int] = {}

    def find_met(self, text: bytes) -> int:
        """The requirements that a text of ASCII may meet, a bit for each in their order."""
        return self.requirements(self.clauses(text))

    def clauses(self, text: bytes) -> int:
        """The clauses that the words of a text of ASCII meet; those of several texts may be joined."""
        cached = self._cached
        raw = text.lower()
        words = {*raw.translate(BLANKS).split()}
        if signs := raw.translate(None, ORDINARY):
            words.update(map(_SIGNS.__getitem__, {*signs}))
        met = self._open
        for word in words:
            bits = cached.get(word)  # one step: another thread may forget the words meanwhile
            if bits is None:
                bits = self._learn(word)
            if bits:
                met |= bits
        return met

    def requirements(self, met: int) -> int:
        """The requirements all of whose clauses are met, a bit for each."""
        for places in _HALVES:
            met &= met >> (places * self._count)
        return met

    def _learn(self, word: bytes) -> int:
        """The bits of all clauses that a word meets, by their places."""
        numbers = [self._whole.get(word, 0)]
        sizes = range(SHORTEST, min(len(word), self._longest) + 1)
        if word[:SHORTEST] in self._first_letters:
            numbers += filter(None, [self._prefixes.get(word[:size]) for size in sizes])
        if word[-SHORTEST:] in self._last_letters:
            numbers += filter(None, [self._suffixes.get(word[-size:]) for size in sizes])
        for size in self._begins:
            for start in range(len(word) - size + 1):
                for inner, met in self._inner.get(word[start : start + size], ()):
                    if word.startswith(inner, start):
                        numbers.append(met)
        bits = reduce(or_, numbers)
        if len(word) <= LONGEST_WORD:
            if len(self._cached) >= REMEMBERED_WORDS:
                self._cached.clear()
            self._cached[word] = bits
        return bits


def _select_by_ends(met: dict[Part, int], *, left: bool, right: bool) -> dict[bytes, int]:
    """The parts that go on to these sides, with the clauses that they meet."""
    return {
        part.text.encode(): bits for part, bits in met.items() if part.left == left and part.right == right
    }
