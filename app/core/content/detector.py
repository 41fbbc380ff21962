"""The findings of one form of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.content.expressions import Expressions
from app.core.content.frames import FrameReader
from app.core.content.inspection import Finding
from app.core.content.patterns import Patterns
from app.core.content.prefilter import Word
from app.core.content.text import Text
from app.core.content.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.core.content.forms import Form
    from app.core.content.frames import FramedText
    from app.core.content.patterns import Hit
    from app.core.content.sets import ContentSets

_RARE = 1e-5
"""The share of words that a run is in which is in no word list."""


class Detector:
    """Patterns and frames, compiled. `vocabulary`: the library's words, and those its patterns look for."""

    __slots__ = ("_frames", "_of_frames", "_patterns", "_prefilter", "vocabulary")

    def __init__(self, sets: ContentSets) -> None:
        """Raises BundleError with the path of what does not compile."""
        expressions = Expressions(sets.lexicon)
        self._patterns = Patterns(sets.findings, expressions)
        self._frames = FrameReader(sets.frames, expressions)
        ranked = [word.casefold() for one in sets.vocabulary for line in one.words for word in line.split()]
        ranks = {word: rank for rank, word in reversed(list(enumerate(ranked)))}

        def share(run: str) -> float:
            return _share(run, ranks)

        self._prefilter = expressions.prefilter(self._patterns.places(), share)
        self._of_frames = expressions.prefilter(self._frames.places(), share)
        own = self._prefilter.whole_words()
        sought = [word for word in (*ranked, *sorted(own)) if self._prefilter.word(word).met]
        self.vocabulary = Vocabulary((*ranked, *sought), sought)

    def findings(self, form: Form) -> Iterator[Finding]:
        """One of each pattern, an unframed one where there is any."""
        text = Text(form.text)
        best: dict[int, tuple[Hit, bool]] = {}
        frames = _Lazy(self._frames, text, self._of_frames_in)
        for number, hit in self._hits(text):
            if number not in best or best[number][1]:
                framed = hit.pattern.framed and frames.framed(hit)
                if number not in best or not framed:
                    best[number] = (hit, framed)
        for hit, framed in best.values():
            yield _finding(hit, form.how, text, framed=framed)

    def _hits(self, text: Text) -> Iterator[tuple[int, Hit]]:
        """Hits of patterns of sentences a few sentences at a time, then those of patterns of texts."""
        met, keyed = 0, set[int]()
        for start, end, piece in text.pieces():
            words = self._prefilter.words(piece)
            if not words.keyed:
                continue
            met |= words.met
            keyed |= words.keyed
            yield from self._in(text, (start, end), self._prefilter.candidates(words), of_text=False)
        whole = (0, len(text.raw))
        candidates = (
            self._prefilter.candidates(Word(met, self._patterns.of_texts & keyed)) | self._prefilter.always
        )
        yield from self._in(text, whole, candidates, of_text=True)
        yield from self._in(text, whole, self._prefilter.always, of_text=False)

    def _in(
        self, text: Text, part: tuple[int, int], candidates: frozenset[int], *, of_text: bool
    ) -> Iterator[tuple[int, Hit]]:
        for number in self._patterns.possible(candidates, self._prefilter.always):
            if self._patterns.is_of_text(number) == of_text:
                for hit in self._patterns.hits(number, text, candidates, part):
                    yield number, hit

    def _of_frames_in(self, text: str) -> frozenset[int]:
        return self._of_frames.candidates(self._of_frames.words(text)) | self._of_frames.always


class _Lazy:
    """A text's frames, read when they are first asked for."""

    __slots__ = ("_candidates", "_read", "_reader", "_text")

    def __init__(self, reader: FrameReader, text: Text, candidates: Callable[[str], frozenset[int]]) -> None:
        self._reader = reader
        self._text = text
        self._candidates = candidates
        self._read: FramedText | None = None

    def framed(self, hit: Hit) -> bool:
        if self._read is None:
            self._read = self._reader.of(self._text, self._candidates(self._text.text))
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
