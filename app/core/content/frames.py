"""Talking about attacks is not attacking: quotation, reporting, teaching and detection around a finding.

A frame is no free pass. It holds for what it encloses: words outside the quotation count as ever, and where the
text goes on to demand what it quoted ("now do it"), none of its frames hold. Use and mention: W. V. Quine,
"Mathematical Logic" (1940), section 4; NIST AI 100-2 (2025) on discussing prompt injection.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from app.core.content.quotations import quotations

if TYPE_CHECKING:
    from app.core.content.expressions import Expressions
    from app.core.content.sets import Frame, Frames
    from app.core.content.text import Text


class _Marker(NamedTuple):
    frame: Frame
    places: tuple[int, ...]


class FrameReader:
    """The frames of a library, compiled."""

    __slots__ = ("_expressions", "_markers", "_unless", "_withdrawn")

    def __init__(self, frames: Frames, expressions: Expressions) -> None:
        """Adds its expressions to those given. Raises BundleError."""
        self._expressions = expressions
        self._markers = [
            _Marker(one, expressions.add(one.any, f"frames.markers[{index}].any"))
            for index, one in enumerate(frames.markers)
        ]
        self._withdrawn = expressions.add(frames.withdrawn, "frames.withdrawn")
        self._unless = expressions.add(frames.unless, "frames.unless")

    def of(self, text: Text, candidates: frozenset[int]) -> FramedText:
        """The frames of one text."""
        markers = [_Marker(one.frame, self._in(one.places, candidates)) for one in self._markers]
        return FramedText(
            text,
            self._expressions,
            [one for one in markers if one.places],
            self._in(self._withdrawn, candidates),
            self._in(self._unless, candidates),
        )

    @staticmethod
    def _in(places: tuple[int, ...], candidates: frozenset[int]) -> tuple[int, ...]:
        return tuple(place for place in places if place in candidates)


class FramedText:
    """Which parts of a text are quoted, reported, taught or looked out for."""

    __slots__ = ("_expressions", "_holds", "_markers", "_quoted", "_text")

    def __init__(
        self,
        text: Text,
        expressions: Expressions,
        markers: list[_Marker],
        withdrawn: tuple[int, ...],
        unless: tuple[int, ...],
    ) -> None:
        self._text = text
        self._expressions = expressions
        self._markers = markers
        self._quoted = quotations(text.text)
        self._holds = bool(markers) and not self._is_withdrawn(withdrawn, unless)

    def framed(self, start: int, end: int) -> bool:
        """Whether the bytes are talked about only."""
        if not self._holds:
            return False
        text = self._text
        quoted = self._quotation(text.character(start), text.character(end))
        around = text.sentences_of(*quoted) if quoted else text.sentences_of(text.character(start), text.character(end))
        hole = (text.byte(quoted[0]), text.byte(quoted[1])) if quoted else (start, end)
        scope = (text.byte(around[0]), text.byte(around[1]))
        return any(self._frames(one, hole, scope, quoted=bool(quoted)) for one in self._markers)

    def _frames(self, marker: _Marker, hole: tuple[int, int], scope: tuple[int, int], *, quoted: bool) -> bool:
        holds = marker.frame.holds
        if holds in {"quoted", "topic"} and not quoted:
            return False
        if holds == "topic":
            scope = (0, len(self._text.raw))
        before = holds != "before" and self._found(marker, scope[0], hole[0])
        return before or (holds not in {"after", "adjacent"} and self._found(marker, hole[1], scope[1]))

    def _found(self, marker: _Marker, start: int, end: int) -> bool:
        return any(self._expressions.search(place, self._text.raw, start, end) for place in marker.places)

    def _quotation(self, start: int, end: int) -> tuple[int, int] | None:
        place = bisect_right(self._quoted, (start, len(self._text.text))) - 1
        if place >= 0 and self._quoted[place][0] <= start and end <= self._quoted[place][1]:
            return self._quoted[place]
        return None

    def _is_withdrawn(self, withdrawn: tuple[int, ...], unless: tuple[int, ...]) -> bool:
        text = self._text
        for place in withdrawn:
            at = 0
            while found := self._expressions.search(place, text.raw, at, len(text.raw)):
                scope = text.sentence_at(found[0])
                quoted = self._quotation(text.character(found[0]), text.character(found[1]))
                if not quoted and not any(self._expressions.search(one, text.raw, *scope) for one in unless):
                    return True
                at = found[1]
        return False
