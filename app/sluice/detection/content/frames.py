"""Talking about attacks is not attacking: quotation, reporting, teaching and detection around a finding.

A frame is no free pass. It holds for what it encloses: words outside the quotation count as ever, and
where the text goes on to demand what it quoted ("now do it"), none of its frames hold. Use and mention:
W. V. Quine, "Mathematical Logic" (1940), section 4; NIST AI 100-2 (2025) on discussing prompt injection.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.content.text import Prefilter

if TYPE_CHECKING:
    from sluice.detection.content.compiled_expressions import Expressions
    from sluice.detection.content.sets import Frame, Frames
    from sluice.detection.content.text import Text

# ruff: noqa: RUF001 - the quotation marks of other scripts are meant
LONGEST_QUOTATION = 600
_SPACED = r"[^\W\u0e00-\u0eff\u2e80-\uffff]"
"""A letter or digit of a script that has spaces between words; others have none around a quotation."""
_QUOTED = re.compile(
    r"```.{1,4000}?```"
    rf"|(?<!{_SPACED})\"[^\"]{{1,{LONGEST_QUOTATION}}}\"(?!{_SPACED})"
    rf"|(?<!\w)'(?=\S)[^\n]{{1,{LONGEST_QUOTATION // 2}}}?(?<=\S)'(?!\w)"
    rf"|`[^`\n]{{1,{LONGEST_QUOTATION}}}`"
    rf"|«[^»]{{1,{LONGEST_QUOTATION}}}»|‹[^›]{{1,{LONGEST_QUOTATION}}}›|»[^»«]{{1,{LONGEST_QUOTATION}}}«"
    rf"|[「『][^」』]{{1,{LONGEST_QUOTATION}}}[」』]|《[^》]{{1,{LONGEST_QUOTATION}}}》"
    r"|^[ \t]{0,3}>[^\n]*",
    re.MULTILINE | re.DOTALL,
)


_TAG = re.compile(r"<[A-Za-z][^<>]{0,4000}>")
_VALUE = re.compile(r"=\s{0,3}(?:\"[^\"]*\"|'[^']*')")


def attributes(text: str) -> list[tuple[int, int]]:
    """(start, end) of each quoted value in an HTML tag, in characters: its marks quote nobody."""
    return [
        (tag.start() + value.start(), tag.start() + value.end())
        for tag in _TAG.finditer(text)
        for value in _VALUE.finditer(tag[0])
    ]


def quotations(text: str) -> list[tuple[int, int]]:
    """(start, end) of each quotation with its marks, in characters; none within another."""
    return [match.span() for match in _QUOTED.finditer(text)]


_SIGNS = " \t\r\n\"'`.,:;!?()[]{}<>=/\\|*_#-«»"


class _Marker(NamedTuple):
    frame: Frame
    any: tuple[int, ...]
    all: tuple[int, ...]


class FrameReader:
    """The frames of a library, compiled."""

    __slots__ = ("_expressions", "_markers", "_places", "_prefilter", "_unless", "_withdrawn")

    def __init__(self, frames: Frames, expressions: Expressions) -> None:
        """Adds its expressions to those given. Raises LibraryError."""
        self._expressions = expressions
        self._markers = [
            _Marker(
                marker,
                expressions.add(marker.any, f"frames.markers[{index}].any"),
                expressions.add(marker.all, f"frames.markers[{index}].all"),
            )
            for index, marker in enumerate(frames.markers)
        ]
        self._withdrawn = expressions.add(frames.withdrawn, "frames.withdrawn")
        self._unless = expressions.add(frames.unless, "frames.unless")
        places = {index for marker in self._markers for index in (*marker.any, *marker.all)}
        self._places = sorted({*places, *self._withdrawn, *self._unless})
        self._prefilter = Prefilter(expressions.requirements(self._places))

    def of(self, text: Text) -> FramedText:
        """The frames of one text."""
        met = (*self._prefilter.candidates(text.encode()), *self._prefilter.always)
        candidates = {self._places[number] for number in met}
        markers = [
            marker._replace(any=self._select_places(marker.any, candidates))
            for marker in self._markers
            if not candidates.isdisjoint(marker.any) and candidates.issuperset(marker.all)
        ]
        return FramedText(
            text,
            self._expressions,
            markers,
            self._select_places(self._withdrawn, candidates),
            self._select_places(self._unless, candidates),
        )

    @staticmethod
    def _select_places(places: tuple[int, ...], candidates: set[int]) -> tuple[int, ...]:
        return tuple(index for index in places if index in candidates)


class FramedText:
    """Which parts of a text are quoted, reported, taught or looked out for."""

    __slots__ = ("_attributes", "_expressions", "_holds", "_markers", "_quoted", "_text")

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
        self._quoted = quotations(text.text) if markers else []
        self._attributes = attributes(text.text) if markers else []
        self._holds = bool(markers) and not self._is_withdrawn(withdrawn, unless)

    def is_framed(self, start: int, end: int) -> bool:
        """Whether the bytes are talked about only."""
        if not self._holds:
            return False
        text = self._text
        first, last = self._words_of(text.character(start), text.character(end))
        quoted = _find_holding(self._quoted, first)
        value = _find_holding(self._attributes, first)
        if value and not (quoted and quoted[0] < value[0]):
            return False
        hole = (min(first, quoted[0]), max(last, quoted[1])) if quoted else (first, last)
        scope = text.bytes_of(*text.sentences_of(*hole))
        return any(
            self._frames(marker, text.bytes_of(*hole), scope, quoted=bool(quoted)) for marker in self._markers
        )

    def _frames(
        self, marker: _Marker, hole: tuple[int, int], scope: tuple[int, int], *, quoted: bool
    ) -> bool:
        holds = marker.frame.holds
        if holds in {"quoted", "topic"} and not quoted:
            return False
        if holds == "topic":
            scope = (0, len(self._text.raw))
        before = [(scope[0], hole[0])] if holds != "before" else []
        after = [(hole[1], scope[1])] if holds not in {"after", "adjacent"} else []
        return self._is_in_any(marker.any, before + after) and all(
            self._is_in_any((number,), before + after) for number in marker.all
        )

    def _is_in_any(self, places: tuple[int, ...], parts: list[tuple[int, int]]) -> bool:
        search = self._expressions.search
        return any(search(index, self._text.raw, *part) for part in parts for index in places)

    def _words_of(self, start: int, end: int) -> tuple[int, int]:
        """The characters without signs around them, which may be the quotation marks."""
        text = self._text.text[start:end]
        bare = text.lstrip(_SIGNS)
        return end - len(bare), end - len(text) + len(text.rstrip(_SIGNS))

    def _is_withdrawn(self, withdrawn: tuple[int, ...], unless: tuple[int, ...]) -> bool:
        text = self._text
        for index in withdrawn:
            at = 0
            while match := self._expressions.search(index, text.raw, at, len(text.raw)):
                scope = text.sentence_at(match[0])
                quoted = _find_holding(self._quoted, text.character(match[0]))
                if not quoted and not any(
                    self._expressions.search(number, text.raw, *scope) for number in unless
                ):
                    return True
                at = match[1]
        return False


def _find_holding(spans: list[tuple[int, int]], index: int) -> tuple[int, int] | None:
    """The span that holds a character; none of them within another."""
    before = bisect_right(spans, index, key=itemgetter(0)) - 1
    return spans[before] if before >= 0 and index < spans[before][1] else None
