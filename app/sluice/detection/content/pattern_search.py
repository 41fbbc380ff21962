"""The patterns of a content library, compiled; where in a text each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.content.required_words import RequiredWords, list_clauses
from sluice.detection.content.text import Prefilter, words_and_signs

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from sluice.detection.content.compiled_expressions import Expressions
    from sluice.detection.content.required_words import Clauses
    from sluice.detection.content.sets import ContentPattern
    from sluice.detection.content.text import Text


WHOLE_BYTES = 512 * 1024
"""What is longer holds a word of everything, and to search it for some hundred expressions takes a second.
The patterns of texts are there looked for in a few sentences at a time; any such text is inconclusive too."""


LOOKED_UP_BYTES = 4096
"""Up to here the words of a text of ASCII are looked up: of words that nobody uses an automaton reads more in
the same time."""
SHORT_BYTES = 256
"""Up to here they are looked up together, before the text is cut into sentences: most such texts lack some
word of every pattern. Of a longer one they are looked up for a few sentences at a time."""
MOST_SEARCHED = 16
"""Of more expressions that the words leave of a few sentences, the automata leave fewer to search for: to ask
them takes as long as to search for so many."""
MOST_SEARCHED_FOR = 40
"""The same of a whole text, for the expressions that may be found anywhere in it."""


class PatternPlace(NamedTuple):
    """Where a pattern is, in bytes."""

    pattern: ContentPattern
    start: int
    end: int


class _Places(NamedTuple):
    pattern: ContentPattern
    any: tuple[int, ...]
    all: tuple[int, ...]
    unless: tuple[int, ...]


_Begins = list[tuple[_Places, int]]
"""Patterns that a text may hold, with the expressions that begin them."""


class Patterns:
    """Patterns by the expressions that begin them, those of sentences apart from those of texts."""

    __slots__ = ("_expressions", "_in_any", "_of_sentences", "_of_texts", "_words", "clauses", "places")

    def __init__(
        self, patterns: list[ContentPattern], expressions: Expressions, clauses: Clauses | None = None
    ) -> None:
        """Adds its expressions to those given. `clauses`: as an earlier one of the same patterns had them.
        Raises LibraryError."""
        every = [
            _Places(
                pattern,
                expressions.add(pattern.any, f"findings[{index}].any"),
                expressions.add(pattern.all, f"findings[{index}].all"),
                expressions.add(pattern.unless, f"findings[{index}].unless"),
            )
            for index, pattern in enumerate(patterns)
        ]
        self._expressions = expressions
        self._of_sentences = _Begun(
            [pattern for pattern in every if pattern.pattern.scope == "sentence"], expressions
        )
        self._of_texts = _Begun(
            [pattern for pattern in every if pattern.pattern.scope == "text"], expressions
        )
        self._in_any = bool(self._of_sentences.always or self._of_texts.always)
        self.clauses = clauses or list_clauses(
            [*self._of_sentences.requirements, *self._of_texts.requirements]
        )
        self._words = RequiredWords(self.clauses)
        self.places = {index for pattern in every for index in (*pattern.any, *pattern.all)}
        """Of the expressions without which there is no pattern."""

    def hits(self, text: Text, searched: set[bytes]) -> Iterator[PatternPlace]:
        """Each place of each pattern, those of sentences first; sentences that were seen are left out."""
        whole = (0, len(text.raw))
        looked_up = whole[1] <= LOOKED_UP_BYTES and text.raw.isascii()
        met = self._words.find_met(text.raw) if looked_up and whole[1] <= SHORT_BYTES else None
        if met == 0 and not self._in_any:
            return
        by_words = (
            self._search_by_words(text, searched, met)
            if looked_up
            else self._search_by_automata(text, searched)
        )
        of_text = yield from by_words
        for pattern, index in self._of_sentences.always:
            yield from self._search_sentences(pattern, index, text, whole)
        if whole[1] <= WHOLE_BYTES:
            for pattern, index in (*of_text, *self._of_texts.always):
                yield from self._search_scope(pattern, index, text, whole)

    def _search_by_words(
        self, text: Text, searched: set[bytes], met: int | None
    ) -> Generator[PatternPlace, None, _Begins]:
        """The places in sentences of a text of ASCII, by its words; which patterns of texts it may hold.

        `met`: the requirements that the words of a short text meet.
        """
        words = self._words
        if met is not None and met.bit_count() <= MOST_SEARCHED:
            begun = self._of_sentences.of(met)
            for start, end, _ in _new(text, searched) if begun else ():
                for pattern, index in begun:
                    yield from self._search_sentences(pattern, index, text, (start, end))
            return self._of_texts.of(met >> self._of_sentences.count)
        clauses = 0
        for start, end, folded in text.pieces():
            in_piece = words.clauses(folded)
            clauses |= in_piece
            if folded not in searched:
                searched.add(folded)
                met = words.requirements(in_piece)
                for pattern, index in self._of_sentences.begin_by(met, MOST_SEARCHED, folded):
                    yield from self._search_sentences(pattern, index, text, (start, end))
        met = words.requirements(clauses) >> self._of_sentences.count
        return self._of_texts.begin_by(met, MOST_SEARCHED_FOR, text.fold())

    def _search_by_automata(self, text: Text, searched: set[bytes]) -> Generator[PatternPlace, None, _Begins]:
        """Search any text; of one that is not read as a whole, yield all places."""
        long = len(text.raw) > WHOLE_BYTES
        for start, end, folded in _new(text, searched):
            written = words_and_signs(folded)
            for pattern, index in self._of_sentences.begin(written):
                yield from self._search_sentences(pattern, index, text, (start, end))
            for pattern, index in self._of_texts.begin(written) if long else ():
                yield from self._search_scope(pattern, index, text, (start, end))
        return [] if long else self._of_texts.begin(text.encode())

    def _search_sentences(
        self, pattern: _Places, index: int, text: Text, part: tuple[int, int]
    ) -> Iterator[PatternPlace]:
        at, end = part
        while at < end and (match := self._expressions.search(index, text.raw, at, end)):
            sentence = text.sentence_at(match[0])
            yield from self._search_scope(pattern, index, text, sentence)
            at = max(sentence[1], match[0] + 1)

    def _search_scope(
        self, places: _Places, index: int, text: Text, scope: tuple[int, int]
    ) -> Iterator[PatternPlace]:
        search = self._expressions.search
        begun = search(index, text.raw, *scope)
        if (
            not begun
            or not all(search(number, text.raw, *scope) for number in places.all)
            or any(search(number, text.raw, *scope) for number in places.unless)
        ):
            return
        while begun:
            yield PatternPlace(places.pattern, *begun)
            begun = search(index, text.raw, max(begun[1], begun[0] + 1), scope[1])


def _new(text: Text, searched: set[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """The sentences that were not seen, some at a time."""
    for piece in text.pieces():
        if piece[2] not in searched:
            searched.add(piece[2])
            yield piece


class _Begun:
    """Patterns by what a text must hold for them: one expression of `any` and every one of `all`."""

    __slots__ = ("_begins", "_prefilter", "always", "count", "requirements")

    def __init__(self, patterns: Iterable[_Places], expressions: Expressions) -> None:
        self._begins = [(pattern, index) for pattern in patterns for index in pattern.any]
        self.count = len(self._begins)
        self.requirements = [
            ".*".join(expressions.requirements((index, *pattern.all))) for pattern, index in self._begins
        ]
        self._prefilter = Prefilter(self.requirements)
        self.always = [self._begins[number] for number in self._prefilter.always]
        """The patterns that any text may hold, with the expression that begins them."""

    def begin(self, written: bytes) -> _Begins:
        """The other patterns that a text may hold, which is written as the prefilter reads it."""
        return [self._begins[number] for number in self._prefilter.candidates(written)]

    def begin_by(self, met: int, most: int, folded: bytes) -> _Begins:
        """The other patterns that a casefolded text of ASCII may hold, by the requirements that its words
        meet if these are few: of more, the automata leave fewer."""
        bits = met & ((1 << self.count) - 1)
        return self.of(bits) if bits.bit_count() <= most else self.begin(words_and_signs(folded))

    def of(self, bits: int) -> _Begins:
        """Those of them whose numbers' bits are set."""
        numbers: list[int] = []
        left = bits & ((1 << self.count) - 1)
        while left:
            numbers.append((left & -left).bit_length() - 1)
            left &= left - 1
        return [self._begins[number] for number in numbers if number not in self._prefilter.always]
