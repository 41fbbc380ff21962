"""The patterns of a content library, compiled; where in a text each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.content.required_words import RequiredWords
from sluice.detection.content.text import Prefilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.detection.content.compiled_expressions import Expressions
    from sluice.detection.content.sets import ContentPattern
    from sluice.detection.content.text import Text


WHOLE_BYTES = 512 * 1024
"""What is longer holds a word of everything, and to search it for some hundred expressions takes a second.
The patterns of texts are there looked for in a few sentences at a time; any such text is inconclusive too."""


SHORT_BYTES = 256
"""Up to here most texts of ASCII lack some word of every pattern: to look its words up is cheaper than an
automaton, of which a short text walks through states that are in no cache of the processor any more."""
MOST_SEARCHED = 8
"""Of more expressions that a short text's words leave, the automata leave fewer to search for."""


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


class _LookedUp(NamedTuple):
    """The patterns that a text may hold, with the expressions that begin them."""

    sentences: list[tuple[_Places, int]]
    texts: list[tuple[_Places, int]]


class Patterns:
    """Patterns by the expressions that begin them, those of sentences apart from those of texts."""

    __slots__ = ("_expressions", "_of_sentences", "_of_texts", "_words", "places")

    def __init__(self, patterns: list[ContentPattern], expressions: Expressions) -> None:
        """Adds its expressions to those given. Raises LibraryError."""
        every = [
            _Places(
                one,
                expressions.add(one.any, f"findings[{index}].any"),
                expressions.add(one.all, f"findings[{index}].all"),
                expressions.add(one.unless, f"findings[{index}].unless"),
            )
            for index, one in enumerate(patterns)
        ]
        self._expressions = expressions
        self._of_sentences = _Begun([one for one in every if one.pattern.scope == "sentence"], expressions)
        self._of_texts = _Begun([one for one in every if one.pattern.scope == "text"], expressions)
        self._words = RequiredWords([*self._of_sentences.requirements, *self._of_texts.requirements])
        self.places = {place for one in every for place in (*one.any, *one.all)}
        """Of the expressions without which there is no pattern."""

    def hits(self, text: Text, seen: set[bytes]) -> Iterator[PatternPlace]:
        """Each place of each pattern, those of sentences first; sentences that were seen are left out."""
        whole = (0, len(text.raw))
        long = whole[1] > WHOLE_BYTES
        looked_up = self._look_up(text)
        for start, end, written in text.pieces(seen) if looked_up is None or looked_up.sentences else ():
            for one, place in looked_up.sentences if looked_up else self._of_sentences.begun(written):
                yield from self._in_sentences(one, place, text, (start, end))
            for one, place in self._of_texts.begun(written) if long else ():
                yield from self._in_scope(one, place, text, (start, end))
        for one, place in self._of_sentences.always:
            yield from self._in_sentences(one, place, text, whole)
        if not long:
            begun = looked_up.texts if looked_up else self._of_texts.begun(text.written())
            for one, place in (*begun, *self._of_texts.always):
                yield from self._in_scope(one, place, text, whole)

    def _look_up(self, text: Text) -> _LookedUp | None:
        """What a short text may hold by its words alone; None: the automata tell sooner."""
        if len(text.raw) > SHORT_BYTES or not text.raw.isascii():
            return None
        met = self._words.met(text.raw)
        if met.bit_count() > MOST_SEARCHED:
            return None
        return _LookedUp(self._of_sentences.of(met), self._of_texts.of(met >> self._of_sentences.count))

    def _in_sentences(
        self, one: _Places, place: int, text: Text, part: tuple[int, int]
    ) -> Iterator[PatternPlace]:
        at, end = part
        while at < end and (found := self._expressions.search(place, text.raw, at, end)):
            sentence = text.sentence_at(found[0])
            yield from self._in_scope(one, place, text, sentence)
            at = max(sentence[1], found[0] + 1)

    def _in_scope(
        self, places: _Places, place: int, text: Text, scope: tuple[int, int]
    ) -> Iterator[PatternPlace]:
        search = self._expressions.search
        found = search(place, text.raw, *scope)
        if (
            not found
            or not all(search(one, text.raw, *scope) for one in places.all)
            or any(search(one, text.raw, *scope) for one in places.unless)
        ):
            return
        while found:
            yield PatternPlace(places.pattern, *found)
            found = search(place, text.raw, max(found[1], found[0] + 1), scope[1])


class _Begun:
    """Patterns by what a text must hold for them: one expression of `any` and every one of `all`."""

    __slots__ = ("_begins", "_prefilter", "always", "count", "requirements")

    def __init__(self, patterns: Iterable[_Places], expressions: Expressions) -> None:
        self._begins = [(one, place) for one in patterns for place in one.any]
        self.count = len(self._begins)
        self.requirements = [
            ".*".join(expressions.requirements((place, *one.all))) for one, place in self._begins
        ]
        self._prefilter = Prefilter(self.requirements)
        self.always = [self._begins[number] for number in self._prefilter.always]
        """The patterns that any text may hold, with the expression that begins them."""

    def begun(self, written: bytes) -> list[tuple[_Places, int]]:
        """The other patterns that a text may hold, which is written as the prefilter reads it."""
        return [self._begins[number] for number in self._prefilter.candidates(written)]

    def of(self, bits: int) -> list[tuple[_Places, int]]:
        """Those of them whose numbers' bits are set."""
        numbers: list[int] = []
        left = bits & ((1 << self.count) - 1)
        while left:
            numbers.append((left & -left).bit_length() - 1)
            left &= left - 1
        return [self._begins[number] for number in numbers if number not in self._prefilter.always]
