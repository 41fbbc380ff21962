"""The findings of one form of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.content.expressions import Expressions
from app.core.content.frames import FrameReader
from app.core.content.inspection import Finding
from app.core.content.patterns import Patterns
from app.core.content.text import PIECE_CHARS, Text
from app.core.content.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.content.forms import Form
    from app.core.content.frames import FramedText
    from app.core.content.patterns import Hit
    from app.core.content.sets import ContentSets

_RARE = 1e-5
"""The share of words that a run is in which is in no word list."""


class Detector:
    """Patterns and frames of a library, compiled. `vocabulary`: its words, and those its patterns look for."""

    __slots__ = ("_frames", "_patterns", "_prefilter", "vocabulary")

    def __init__(self, sets: ContentSets) -> None:
        """Raises BundleError with the path of what does not compile."""
        expressions = Expressions(sets.lexicon)
        self._patterns = Patterns(sets.findings, expressions)
        self._frames = FrameReader(sets.frames, expressions)
        ranked = [word.casefold() for one in sets.vocabulary for line in one.words for word in line.split()]
        ranks = {word: rank for rank, word in reversed(list(enumerate(ranked)))}
        self._prefilter = expressions.prefilter(lambda run: _share(run, ranks))
        own = self._prefilter.whole_words()
        sought = [word for word in (*ranked, *sorted(own)) if self._prefilter.word(word).runs]
        self.vocabulary = Vocabulary((*ranked, *sought), sought)

    def findings(self, form: Form) -> Iterator[Finding]:
        """One of each pattern, an unframed one where there is any."""
        words = self._prefilter.words(form.text)
        candidates = self._prefilter.candidates(words)
        possible = self._patterns.possible(candidates)
        if not possible:
            return
        text = Text(form.text)
        best: dict[int, tuple[Hit, bool]] = {}
        frames = _Lazy(self._frames, text, candidates)
        for number, hit in self._hits(possible, text, candidates):
            if number not in best or best[number][1]:
                framed = hit.pattern.framed and frames.framed(hit)
                if number not in best or not framed:
                    best[number] = (hit, framed)
        for hit, framed in best.values():
            yield _finding(hit, form.how, text, framed=framed)

    def _hits(self, possible: list[int], text: Text, candidates: frozenset[int]) -> Iterator[tuple[int, Hit]]:
        whole = (0, len(text.raw))
        several = len(text.text) > PIECE_CHARS
        for number in possible:
            if not several or self._patterns.is_of_text(number):
                yield from ((number, hit) for hit in self._patterns.hits(number, text, candidates, whole))
        if not several:
            return
        for start, end, piece in text.pieces():
            here = self._prefilter.candidates(self._prefilter.words(piece))
            for number in self._patterns.possible(here):
                if not self._patterns.is_of_text(number):
                    yield from ((number, hit) for hit in self._patterns.hits(number, text, here, (start, end)))


class _Lazy:
    """A text's frames, read when they are first asked for."""

    __slots__ = ("_candidates", "_read", "_reader", "_text")

    def __init__(self, reader: FrameReader, text: Text, candidates: frozenset[int]) -> None:
        self._reader = reader
        self._text = text
        self._candidates = candidates
        self._read: FramedText | None = None

    def framed(self, hit: Hit) -> bool:
        if self._read is None:
            self._read = self._reader.of(self._text, self._candidates)
        return self._read.framed(hit.start, hit.end)


def _finding(hit: Hit, how: str, text: Text, *, framed: bool) -> Finding:
    one = hit.pattern
    return Finding(
        one.id,
        one.kind,
        "weak" if framed else one.weight,
        how,
        one.reason,
        one.source,
        framed,
        text.character(hit.start),
        text.character(hit.end),
    )


def _share(run: str, ranks: dict[str, int]) -> float:
    """How large a part of all words a run is found in, by Zipf's law."""
    word = run.strip("\b")
    if word in ranks:
        return 0.1 / (ranks[word] + 1)
    return _RARE if len(word) > len("run") else _RARE * 1000
