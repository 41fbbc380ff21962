"""The findings of one form of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.content.expressions import Expressions
from app.core.content.frames import FrameReader
from app.core.content.inspection import Finding
from app.core.content.patterns import Patterns
from app.core.content.spelt import sought
from app.core.content.text import Text
from app.core.content.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.content.forms import Form
    from app.core.content.frames import FramedText
    from app.core.content.patterns import Hit
    from app.core.content.sets import ContentSets


class Detector:
    """Patterns and frames, compiled. `vocabulary`: the library's words, and those its patterns look for."""

    __slots__ = ("_frames", "_patterns", "vocabulary")

    def __init__(self, sets: ContentSets) -> None:
        """Raises BundleError with the path of what does not compile."""
        expressions = Expressions(sets.lexicon)
        self._patterns = Patterns(sets.findings, expressions)
        self._frames = FrameReader(sets.frames, expressions)
        ranked = [word.casefold() for one in sets.vocabulary for line in one.words for word in line.split()]
        looked_for = sought(ranked, expressions.demands(self._patterns.places))
        self.vocabulary = Vocabulary(ranked, looked_for)

    def findings(self, form: Form, seen: set[bytes]) -> Iterator[Finding]:
        """One of each pattern, an unframed one where there is any.

        `seen`: the sentences that the text had in other forms, which are not read again; these are added.
        """
        text = Text(form.text)
        best: dict[str, tuple[Hit, bool]] = {}
        frames = _Lazy(self._frames, text)
        for hit in self._patterns.hits(text, seen):
            name = hit.pattern.id
            if name not in best or best[name][1]:
                framed = hit.pattern.framed and frames.framed(hit)
                if name not in best or not framed:
                    best[name] = (hit, framed)
        for hit, framed in best.values():
            yield _finding(hit, form.how, text, framed=framed)


class _Lazy:
    """A text's frames, read when they are first asked for."""

    __slots__ = ("_read", "_reader", "_text")

    def __init__(self, reader: FrameReader, text: Text) -> None:
        self._reader = reader
        self._text = text
        self._read: FramedText | None = None

    def framed(self, hit: Hit) -> bool:
        if self._read is None:
            self._read = self._reader.of(self._text)
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
