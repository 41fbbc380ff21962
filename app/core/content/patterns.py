"""The patterns of a content library, compiled; where in a text each of them is."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.content.expressions import Expressions
    from app.core.content.sets import ContentPattern
    from app.core.content.text import Text


class Hit(NamedTuple):
    """Where a pattern is, in bytes."""

    pattern: ContentPattern
    start: int
    end: int


class _Places(NamedTuple):
    pattern: ContentPattern
    any: tuple[int, ...]
    all: tuple[int, ...]
    unless: tuple[int, ...]


class Patterns:
    """Patterns by the expressions that may begin them."""

    __slots__ = ("_by_expression", "_expressions", "_patterns", "of_texts")

    def __init__(self, patterns: list[ContentPattern], expressions: Expressions) -> None:
        """Adds its expressions to those given. Raises BundleError."""
        self._expressions = expressions
        self._patterns = [
            _Places(
                one,
                expressions.add(one.any, f"findings[{index}].any"),
                expressions.add(one.all, f"findings[{index}].all"),
                expressions.add(one.unless, f"findings[{index}].unless"),
            )
            for index, one in enumerate(patterns)
        ]
        self._by_expression: dict[int, list[int]] = defaultdict(list)
        for number, places in enumerate(self._patterns):
            for place in places.any:
                self._by_expression[place].append(number)

        texts = [one for one in self._patterns if one.pattern.scope == "text"]
        self.of_texts = frozenset(place for one in texts for place in (*one.any, *one.all))
        """The places of the expressions of patterns whose scope is the text."""

    def places(self) -> set[int]:
        """Of the expressions without which there is no pattern."""
        return {place for one in self._patterns for place in (*one.any, *one.all)}

    def possible(self, candidates: frozenset[int], always: frozenset[int]) -> list[int]:
        """The numbers of the patterns that one of these candidates may begin; `always` may be anywhere."""
        begun = {number for place in candidates for number in self._by_expression.get(place, ())}
        return sorted(
            number
            for number in begun
            if all(place in candidates or place in always for place in self._patterns[number].all)
        )

    def hits(
        self, number: int, text: Text, candidates: frozenset[int], part: tuple[int, int]
    ) -> Iterator[Hit]:
        """Each place of a pattern in the sentences of a part of the text, in bytes, or in the text."""
        places = self._patterns[number]
        for place in places.any:
            if place in candidates:
                if places.pattern.scope == "text":
                    yield from self._in_scope(places, place, text, part)
                else:
                    yield from self._in_sentences(places, place, text, part)

    def is_of_text(self, number: int) -> bool:
        """Whether a pattern's expressions may be in different sentences."""
        return self._patterns[number].pattern.scope == "text"

    def _in_sentences(self, places: _Places, place: int, text: Text, part: tuple[int, int]) -> Iterator[Hit]:
        at, end = part
        while at < end and (found := self._expressions.search(place, text.raw, at, end)):
            sentence = text.sentence_at(found[0])
            yield from self._in_scope(places, place, text, sentence)
            at = max(sentence[1], found[0] + 1)

    def _in_scope(self, places: _Places, place: int, text: Text, scope: tuple[int, int]) -> Iterator[Hit]:
        search = self._expressions.search
        found = search(place, text.raw, *scope)
        if (
            not found
            or not all(search(one, text.raw, *scope) for one in places.all)
            or any(search(one, text.raw, *scope) for one in places.unless)
        ):
            return
        while found:
            yield Hit(places.pattern, *found)
            found = search(place, text.raw, max(found[1], found[0] + 1), scope[1])
