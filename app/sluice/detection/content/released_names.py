"""Inspects what is released together with a content: ids, references and classes, which are free
text as well. A reader sees them next to the content, so an order in an id is an order. They count as the
content's findings do, each field by itself and all of a record as one text, in case one was split over them.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.content.findings import ContentInspection, Finding
from sluice.detection.content.wording import (
    cut_host,
    normalise_wording,
    read_numbered_word,
    readings,
    says_something,
    write_as_words,
)
from sluice.detection.kept import ANSWERS, RememberedTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluice.detection.disguises.vocabulary import Vocabulary

SEAM = 128
"""Characters of a content that are read on from its neighbour's words, or into them."""
WINDOW, OVERLAP = 512, 128
"""Characters of several items' words that are read as one text, and what it shares with the next text."""
LONGEST_KEPT = 256
"""Characters of a name whose wording is remembered: the same references come again and again."""
_PAIR = 2


class _Said(NamedTuple):
    """What was found in a wording, and which bound was passed. `words`: what it says, to be read on from, ""
    for nothing; `whole`: likewise with the host of a reference."""

    findings: tuple[Finding, ...]
    inconclusive: str | None
    words: str
    whole: str


Name = tuple[str, str]
"""A field that is released, and its text."""


class Spoken(NamedTuple):
    """What a field says, to be read on from: `words` with blanks between them, `text` as it is written."""

    field: str
    words: str
    text: str


class Read(NamedTuple):
    """What was found in names. `inconclusive`: the first field that passed a bound, and which.

    `words`: what each name says that says anything.
    """

    findings: tuple[Finding, ...] = ()
    inconclusive: str | None = None
    words: tuple[Spoken, ...] = ()


NOTHING = Read()


class Names:
    """Reads names with a compiled library, by what they say in words. What it found is remembered: ids of one
    system say the same."""

    __slots__ = (
        "_as_it_stands",
        "_inspect",
        "_joined",
        "_known_read",
        "_known_wording",
        "_remembered",
        "_seams",
        "_words",
    )

    def __init__(
        self,
        words: Vocabulary,
        inspect: Callable[[str], ContentInspection],
        as_it_stands: Callable[[str], tuple[Finding, ...]],
    ) -> None:
        """`as_it_stands` finds what is there without taking off any disguise."""
        self._words = words
        self._inspect = inspect
        self._as_it_stands = as_it_stands
        self._remembered = RememberedTexts[_Said]()
        self._joined = RememberedTexts[ContentInspection]()
        self._seams = RememberedTexts[tuple[Finding, ...]]()
        self._known_wording = lru_cache(ANSWERS)(partial(normalise_wording, words=words))
        self._known_read = lru_cache(ANSWERS)(self._read_anew)

    def read(self, names: Sequence[Name]) -> Read:
        """Each name by itself, then those that say anything as one text, in this order, and two by two."""
        spoken: list[Name] = []
        overlong = False
        for field, text in names:
            if len(text) > LONGEST_KEPT:
                overlong = True
                spoken.append((field, normalise_wording(text, self._words)))
            else:
                spoken.append((field, read_numbered_word(text) or self._known_wording(text)))
        return self._read_anew(tuple(spoken)) if overlong else self._known_read(tuple(spoken))

    def _read_anew(self, wordings: tuple[Name, ...]) -> Read:
        findings: list[Finding] = []
        telling: list[str] = []
        said_by = []
        inconclusive = None
        for field, wording_ in wordings:
            reading = self._read_words(wording_)
            findings += [finding._replace(field=field) for finding in reading.findings]
            if reading.inconclusive is not None:
                inconclusive = inconclusive or f"{field}: {reading.inconclusive}"
            if reading.words:
                telling.append(wording_)
                said_by.append((field, reading))
        words = tuple(
            Spoken(field, own_reading.words, text)
            for (field, own_reading), text in zip(said_by, telling, strict=True)
        )
        if len(words) > 1:
            whole = " ".join(own_reading.whole for _, own_reading in said_by)
            for several, text in (*_join_fields(words), (_fields(words), whole)):
                joint = self._joint(text)
                findings += [finding._replace(field=several) for finding in _new(joint.findings, findings)]
                if joint.inconclusive is not None:
                    inconclusive = inconclusive or f"{several}: {joint.inconclusive}"
        return Read(tuple(findings), inconclusive, words) if words or findings or inconclusive else NOTHING

    def find_after(self, content: str, words: Sequence[Spoken], named: str) -> tuple[Finding, ...]:
        """What is in neither the content nor in what is read on from its end, and is where they meet."""
        texts = {" ".join(word.words for word in words), " ".join(word.text for word in words)}
        return self._across([(content, text) for text in sorted(texts)], f"{named} + {_fields(words)}")

    def find_before(self, words: Sequence[Spoken], content: str, named: str) -> tuple[Finding, ...]:
        """What is in neither the words nor the content that they stand before, and is where they meet."""
        texts = {" ".join(word.words for word in words), " ".join(word.text for word in words)}
        return self._across([(text, content) for text in sorted(texts)], f"{_fields(words)} + {named}")

    def _across(self, meetings: Iterable[tuple[str, str]], field: str) -> tuple[Finding, ...]:
        findings: list[Finding] = []
        for first, second in meetings:
            left, right = first[-SEAM:], second[:SEAM]
            if not left.strip() or not right.strip():
                continue
            together = self._find(f"{left} {right}")
            if together:
                apart = (*self._find(left), *self._find(right), *findings)
                findings += [finding._replace(field=field) for finding in _new(together, apart)]
        return tuple(findings)

    def _find(self, text: str) -> tuple[Finding, ...]:
        stored = self._seams.get(text)
        if stored is None:
            stored = self._find_anew(text)
            self._seams.put(text, stored)
        return stored

    def _find_anew(self, text: str) -> tuple[Finding, ...]:
        """Letters beyond ASCII may be in disguise; others are read as they stand, in a fifth of the time."""
        return self._as_it_stands(text) if text.isascii() else self._inspect(text).findings

    def along(self, column: Sequence[str], field: str) -> Iterator[tuple[Finding, range]]:
        """What is in several words of a column read one after the other, and in none of them alone; with the
        places in the column that it may be in."""
        for places in _windows(column):
            together = self._as_it_stands(" ".join(column[index] for index in places))
            if together:
                apart = [finding for index in places for finding in self._as_it_stands(column[index])]
                for joint_finding in _new(together, apart):
                    yield joint_finding._replace(field=field), places

    def _joint(self, text: str) -> ContentInspection:
        stored = self._joined.get(text)
        if stored is None:
            stored = self._inspect(text)
            self._joined.put(text, stored)
        return stored

    def _read_words(self, wording_: str) -> _Said:
        stored = self._remembered.get(wording_)
        if stored is None:
            stored = self._read(wording_)
            self._remembered.put(wording_, stored)
        return stored

    def _read(self, wording_: str) -> _Said:
        findings: list[Finding] = []
        inconclusive = None
        for text in readings(wording_):
            inspection = self._inspect(text)
            findings += _new(inspection.findings, findings)
            inconclusive = inconclusive or inspection.inconclusive
        if not says_something(wording_, self._words):
            return _Said(tuple(findings), inconclusive, "", "")
        below, whole = cut_host(wording_), write_as_words(wording_)
        words = write_as_words(below) if says_something(below, self._words) else whole
        return _Said(tuple(findings), inconclusive, words, whole)


def _join_fields(words: Sequence[Spoken]) -> Iterator[tuple[str, str]]:
    """Which fields, and their words as one text: all of them, and each two."""
    fields = _fields(words)
    for text in dict.fromkeys(
        (" ".join(word.text for word in words), " ".join(word.words for word in words))
    ):
        yield fields, text
    by_field: dict[str, list[str]] = {}
    for spoken in words:
        by_field.setdefault(spoken.field, []).append(spoken.words)
    names = list(by_field)
    for first, field in enumerate(names if len(names) > _PAIR else ()):
        for other in names[first + 1 :]:
            yield f"{field} + {other}", " ".join((*by_field[field], *by_field[other]))


def _fields(words: Sequence[Spoken]) -> str:
    return " + ".join(dict.fromkeys(word.field for word in words))


def _new(findings: Iterable[Finding], known_findings: Iterable[Finding]) -> list[Finding]:
    """Those whose pattern was not found before, unless it was only as something quoted."""
    before = {finding.id for finding in known_findings if not finding.framed}
    return [finding for finding in findings if finding.id not in before]


def _windows(column: Sequence[str]) -> Iterator[range]:
    """Runs of at least two places whose texts fit into a window, each begun within the one before."""
    ends = [0]
    for text in column:
        ends.append(ends[-1] + len(text) + 1)
    start = 0
    while start < len(column) - 1:
        stop = start + 2
        while stop < len(column) and ends[stop + 1] - ends[start] <= WINDOW:
            stop += 1
        yield range(start, stop)
        if stop == len(column):
            return
        following = stop - 1
        while following > start + 1 and ends[stop] - ends[following] < OVERLAP:
            following -= 1
        start = following
