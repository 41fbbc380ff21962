"""Looks for a content library's patterns in a text and in everything that the text may be in disguise."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cached_property
from itertools import islice, product
from typing import TYPE_CHECKING

from sluice.detection.content.compiled_expressions import Expressions
from sluice.detection.content.findings import ContentInspection, Finding
from sluice.detection.content.frames import FrameReader
from sluice.detection.content.pattern_search import Patterns
from sluice.detection.content.released_names import Names
from sluice.detection.content.required_words import read_clauses, write_clauses
from sluice.detection.content.text import Text
from sluice.detection.disguises.forms import Forms
from sluice.detection.disguises.letters import plain
from sluice.detection.disguises.unfold import PLAIN, UnfoldedText
from sluice.detection.disguises.vocabulary import Vocabulary
from sluice.detection.kept import Compilation, RememberedTexts, find_compilation, keep_compilation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.detection.content.frames import FramedText
    from sluice.detection.content.pattern_search import PatternPlace
    from sluice.detection.content.sets import ContentSets


_PLAIN_ASCII = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \t\n\r\x0b\x0c"
_SIGN = re.compile(r"[^\w\s]|_")
_ABOVE = re.compile(r"[^\x00-\x7f]+")
_NO_SIGNS = _PLAIN_ASCII + bytes(range(128, 256))


def special_share(text: str) -> float:
    """The share of characters that are no letter, digit or white space; a letter's marks are letters."""
    if not text:
        return 0.0
    signs = len(text.encode().translate(None, _NO_SIGNS))
    if not text.isascii():
        above = Counter(_SIGN.findall("".join(_ABOVE.findall(text))))
        signs += sum(n for sign, n in above.items() if not unicodedata.category(sign).startswith("M"))
    return signs / len(text)


_LETTERS, _WORDS = r"[^\W\d_]", r"(?:[^\W\d_]| )"
_PIECES = re.compile(rf"(?:{_LETTERS}+|\(\?:{_WORDS}*(?:\|{_WORDS}*)+\))+")
"""Letters and choices between words, as requirements write them."""
_PIECE = re.compile(rf"\(\?:([^()]*)\)|({_LETTERS}+)")
_NEXT_SET, _FIRST_SET = re.compile(r"\) ?\|\\[bB] ?\(\?:"), re.compile(r"\(\?:\\b ?\(\?:")
"""How `requirement` writes one of many strings."""
_MOST_SPELLINGS = 1024
_SHORTEST_STEM = 4
_JOINED_BEFORE = frozenset(")]*0123456789_\\")
_JOINED_AFTER = frozenset(".([0123456789_")


def sought(ranked: Iterable[str], requirements: Iterable[str]) -> list[str]:
    """Whole words that the requirements of expressions spell out, and ranked ones that begin as these do."""
    words = set[str]()
    begins = set[str]()
    for requirement in set(requirements):
        text = _FIRST_SET.sub(" (?:", _NEXT_SET.sub("|", requirement)).replace("))", ")")
        for match in _PIECES.finditer(text):
            named = {word for spelling in _list_spellings(match[0]) for word in spelling.split()}
            begins |= named
            start, end = match.span()
            if text[start - 1 : start] not in _JOINED_BEFORE and text[end : end + 1] not in _JOINED_AFTER:
                words |= named
    beginning = (word for word in ranked if _begins(word, begins))
    return sorted({*words, *beginning})


def _begins(word: str, begins: set[str]) -> bool:
    return word in begins or any(word[:end] in begins for end in range(_SHORTEST_STEM, len(word)))


def _list_spellings(piece: str) -> Iterator[str]:
    """Every word of a few letters and choices."""
    parts = [match[1].split("|") if match[1] else [match[2]] for match in _PIECE.finditer(piece)]
    return ("".join(spelling) for spelling in islice(product(*parts), _MOST_SPELLINGS))


class Detector:
    """Patterns and frames, compiled. `vocabulary`: the library's words, and those its patterns look for."""

    __slots__ = ("_frames", "_patterns", "compilation", "vocabulary")

    def __init__(self, sets: ContentSets, compilation: Compilation | None = None) -> None:
        """`compilation`: of the library. Raises LibraryError with the path of what does not compile."""
        expressions = Expressions(sets.lexicon, compilation and compilation.expressions)
        self._patterns = Patterns(
            sets.findings, expressions, compilation and read_clauses(compilation.clauses)
        )
        self._frames = FrameReader(sets.frames, expressions)
        ranked = [
            word.casefold()
            for word_list in sets.vocabulary
            for line in word_list.words
            for word in line.split()
        ]
        looked_for = (
            compilation.looked_for
            if compilation
            else sought(ranked, expressions.requirements(self._patterns.places))
        )
        self.compilation = Compilation(
            expressions.written,
            looked_for,
            compilation.clauses if compilation else write_clauses(self._patterns.clauses),
        )
        self.vocabulary = Vocabulary(ranked, looked_for)

    def findings(self, form: UnfoldedText, searched: set[bytes]) -> Iterator[Finding]:
        """One of each pattern, an unframed one where there is any.

        `searched`: the sentences that the text had in other forms, which are not read again; these are added.
        """
        text = Text(form.text)
        best: dict[str, tuple[PatternPlace, bool]] = {}
        frames = _Lazy(self._frames, text)
        for hit in self._patterns.hits(text, searched):
            name = hit.pattern.id
            if name not in best or best[name][1]:
                framed = hit.pattern.framed and frames.is_framed(hit)
                if name not in best or not framed:
                    best[name] = (hit, framed)
        for hit, framed in best.values():
            yield _make_finding(hit, form.how, text, framed=framed)


class _Lazy:
    """A text's frames, read when they are first asked for."""

    __slots__ = ("_read", "_reader", "_text")

    def __init__(self, reader: FrameReader, text: Text) -> None:
        self._reader = reader
        self._text = text
        self._read: FramedText | None = None

    def is_framed(self, hit: PatternPlace) -> bool:
        if self._read is None:
            self._read = self._reader.of(self._text)
        return self._read.is_framed(hit.start, hit.end)


def _make_finding(hit: PatternPlace, how: str, text: Text, *, framed: bool) -> Finding:
    pattern = hit.pattern
    return Finding(
        pattern.id,
        pattern.kind,
        "weak" if framed else pattern.weight,
        how,
        pattern.reason,
        pattern.source,
        framed,
        text.character(hit.start),
        text.character(hit.end),
    )


_SEVERAL = "content.several_weak"


class ContentInspector:
    """A compiled content library. One that compiled before, which is kept, is prepared at the first text."""

    def __init__(self, sets: ContentSets) -> None:
        """Raises LibraryError with the path of what does not compile."""
        self._sets = sets
        self._library = sets.model_dump_json().encode()
        self._weak_makes_strong = sets.weak_makes_strong
        self.remembered = RememberedTexts[ContentInspection]()
        self._compilation = find_compilation(self._library)
        if self._compilation is None:
            keep_compilation(self._library, self._detector.compilation)

    @cached_property
    def _detector(self) -> Detector:
        return Detector(self._sets, self._compilation)

    @cached_property
    def _forms(self) -> Forms:
        return Forms(self._detector.vocabulary)

    @cached_property
    def names(self) -> Names:
        """Reads the ids and references that are released together with a content."""
        return Names(self._detector.vocabulary, self.inspect_anew, self.inspect_as_it_stands)

    @property
    def was_kept(self) -> bool:
        """Whether an earlier compilation of the same library was kept."""
        return self._compilation is not None

    def prepare(self) -> None:
        """Do now what the first text would have to wait for."""
        _ = self._forms

    def inspect(self, text: str) -> ContentInspection:
        """Everything found in the text; the same text always gives the same."""
        return inspect_text(self, text)

    def inspect_anew(self, text: str) -> ContentInspection:
        """Everything found in the text, read anew though it is remembered."""
        unfolding = self._forms.of(text)
        by_id: dict[str, Finding] = {}
        searched = set[bytes]()
        for form in unfolding.forms:
            for finding in self._detector.findings(form, searched):
                if finding.id not in by_id or (by_id[finding.id].framed and not finding.framed):
                    by_id[finding.id] = finding
        return ContentInspection(
            (*by_id.values(), *self._several(list(by_id.values()))),
            len(text),
            unfolding.removed / max(1, len(text)),
            special_share(text),
            unfolding.bound,
        )

    def inspect_as_it_stands(self, text: str) -> tuple[Finding, ...]:
        """What is found in the text alone, no disguise taken off."""
        first = plain(text)
        findings = list(self._detector.findings(UnfoldedText(first.how or PLAIN, first.text), set()))
        return (*findings, *self._several(findings))

    def _several(self, findings: list[Finding]) -> Iterator[Finding]:
        weak = [finding for finding in findings if finding.weight == "weak" and not finding.framed]
        if len(weak) >= self._weak_makes_strong:
            first = weak[0]
            reason = f"{len(weak)} weak findings in one text"
            yield first._replace(id=_SEVERAL, weight="strong", reason=reason, source="weak_makes_strong")


def inspect_text(inspector: ContentInspector, text: str) -> ContentInspection:
    """Everything found in the text, by a bundle's content library; the same text always gives the same."""
    remembered = inspector.remembered
    stored = remembered.get(text)
    if stored is None:
        stored = inspector.inspect_anew(text)
        remembered.put(text, stored)
    else:
        remembered.move_to_end(text)
    return stored
