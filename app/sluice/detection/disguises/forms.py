"""Every form in which a text may be meant: each disguise taken off, one within another.

A disguise alone is no finding: ordinary text is encoded, letter-spaced and misspelt too.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import zip_longest
from string import ascii_lowercase
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.disguises import decodings, spelling
from sluice.detection.disguises.letters import alike, plain
from sluice.detection.disguises.spelling import (
    part_identifiers,
    rejoin,
    remove_glued,
    remove_leet,
    reversals,
    shift_letters,
    ungarble,
)
from sluice.detection.disguises.unfold import PLAIN, TooManyForms, UnfoldedText, unfold
from sluice.text.expression_sets import PatternSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.detection.disguises.vocabulary import Vocabulary


_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_BITS = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff]{16,}")
_FIRST_TAG = 0xE0000
_SELECTOR, _SELECTORS_AGAIN = 0xFE00, 0xE0100
_BYTE = 8
HIDDEN = re.compile(
    "[\u200b-\u200d\u2060-\u2064\ufeff\ufe00-\ufe0f\U000e0020-\U000e007e\U000e0100-\U000e01ef]{4}"
)
"""Without this a text hides none."""


def find_hidden_texts(text: str) -> Iterator[tuple[str, str]]:
    """(encoding, text) of what the text carries unseen.

    Unicode tags: J. Thacker and R. Goodside 2024, "ASCII smuggling"; variation selectors: P. Butler 2025,
    "Smuggling arbitrary data through an emoji"; zero-width bits: steganography of 2015 and later.
    """
    tags = "".join(chr(ord(sign) - _FIRST_TAG) for run in _TAGS.findall(text) for sign in run)
    if tags:
        yield "unicode-tags", tags
    if chosen := "\n".join(filter(None, map(_read_selectors, _SELECTORS.findall(text)))):
        yield "variation-selectors", chosen
    if bits := "\n".join(decoded for run in _BITS.findall(text) for decoded in _read_bits(run)):
        yield "zero-width-bits", bits


def _read_selectors(run: str) -> str:
    raw = bytes(
        ord(sign) - _SELECTOR if ord(sign) < _FIRST_TAG else ord(sign) - _SELECTORS_AGAIN + 16 for sign in run
    )
    return raw.decode(errors="ignore")


def _read_bits(run: str) -> Iterator[str]:
    """Either of the two commonest signs may be the one bit."""
    signs = sorted(set(run), key=run.count, reverse=True)[:2]
    for zero in signs:
        bits = "".join("0" if sign == zero else "1" for sign in run if sign in signs)
        raw = bytes(int(bits[at : at + _BYTE], 2) for at in range(0, len(bits) - _BYTE + 1, _BYTE))
        if raw.isascii() and raw.decode().isprintable():
            yield raw.decode()


READ_CHARS = 128 * 1024
"""A longer text is read as it stands, and can then only be withheld."""
_CUES = PatternSet(
    [
        *decodings.CUES,
        *spelling.CUES,
        ("leet", r"[a-z][0-9@$!|+][a-z0-9]|[0-9@$!|][a-z]|[a-z]{2}[013457@$]"),
        ("identifier", r"[a-z]_[a-z]|(?-i:[a-z][A-Z][a-z])"),
    ]
)
_NEEDS_NO_READER = frozenset(["leet", "letters apart"])
"""Of leetspeak its words decide; letters apart count only in a text that is spaceless too."""
_LETTERS = bytes(code if chr(code) in ascii_lowercase else ord(" ") for code in range(256))
_ROT13 = 13
_LEAST_HINTS = 2
"""So many words of a text must have come from the same disguise before the text is read without it."""


_PIECE = re.compile(r"(\s(?<=[.!?\n]\s)\s*)")  # the blank first, which is five times as fast to look for
_SHORT = 256
"""A text of this size is read again as a whole; of a longer one the sentences that came out different."""


class Unfolding(NamedTuple):
    """The forms of a text, the plain one first; which bound they passed."""

    forms: list[UnfoldedText]
    removed: int
    bound: str | None


class Forms:
    """Unfolds texts with the help of a vocabulary."""

    __slots__ = ("_words",)

    def __init__(self, words: Vocabulary) -> None:
        self._words = words

    def of(self, text: str) -> Unfolding:
        """Each different form once."""
        first = plain(text)
        forms = [UnfoldedText(first.how or PLAIN, first.text)]
        if len(text) <= _SHORT and text.isascii() and self.read_as_written(first.text):
            return Unfolding(forms, first.removed, None)
        if len(text) > READ_CHARS:
            return Unfolding(
                forms, first.removed, f"a text of {len(text)} characters is too long to be unfolded"
            )
        if not text.isascii() and HIDDEN.search(text):
            forms += [UnfoldedText(how, plain(hidden).text) for how, hidden in find_hidden_texts(text)]
        try:
            for form in unfold([*forms], self._undisguise, len(text)):
                forms.append(form)
        except TooManyForms as error:
            return Unfolding(forms, first.removed, str(error))
        return Unfolding(forms, first.removed, None)

    def read_as_written(self, text: str) -> bool:
        """Whether a text of ASCII has no cue and no word that any reader of disguises needs: none can find
        another form of it. Most short texts are so; one look is a half of what the readers take to say it."""
        if not _NEEDS_NO_READER.issuperset(_CUES.matches(text)):
            return False
        folded = text.lower().encode()
        return (
            not self._words.tells_of_leet(folded.translate(spelling.LEET_RUNS).decode().split())
            and not self._words.all_hints(folded.translate(_LETTERS).decode().split())
            and spelling.join_portions(text) is text
        )

    def _undisguise(self, text: str) -> Iterator[tuple[str, str]]:
        for disguise, other in self._remove_each(text):
            inner = plain(_news(text, other)).text if other != text else ""
            if inner.strip():
                yield disguise, inner

    def _remove_each(self, text: str) -> Iterator[tuple[str, str]]:
        if not text.isascii():
            yield "look-alike", alike(text)
            yield "mixed-script", remove_glued(text)
        cues = _CUES.matches(text)
        yield from decodings.decodings(text, cues)
        if "spaceless" in cues and "letters apart" in cues:
            yield "letter-spaced", spelling.close_up(text, self._words)
        if "run" in cues:
            yield "run-together", spelling.part_words(text, self._words)
        yield "portions", spelling.join_portions(text)
        if "leet" in cues:
            yield "leet", remove_leet(text, self._words)
        if "identifier" in cues:
            yield "identifier", part_identifiers(text)
        yield from self._read_by_words(text)

    def _read_by_words(self, text: str) -> Iterator[tuple[str, str]]:
        tokens = letters_of(text).split()
        hints = self._words.all_hints(tokens)
        if not hints:
            return
        if any(hint.garbled for hint in hints):
            yield "misspelt", ungarble(text, self._words)
        if fragments := frozenset(hint.word for hint in hints if hint.fragment):
            yield "split", rejoin(text, tokens, self._words, fragments)
        if sum(hint.reversed for hint in hints) >= _LEAST_HINTS:
            yield from (("reversed", reversal) for reversal in reversals(text))
        shifts = Counter(hint.shift for hint in hints if hint.shift)
        for shift in sorted(shift_ for shift_, times in shifts.items() if times >= _LEAST_HINTS):
            yield "rot13" if shift == _ROT13 else f"shifted-{shift}", shift_letters(text, shift)


def letters_of(text: str) -> str:
    """The letters of ASCII in a text, small, and a blank for every other byte."""
    return text.casefold().encode().translate(_LETTERS).decode()


def _news(before: str, after: str) -> str:
    """The sentences of a text without a disguise that it did not have with it."""
    if len(after) <= _SHORT:
        return after
    registered = set(_PIECE.split(before.casefold())[::2])
    pieces = _PIECE.split(after)
    return "".join(
        piece + gap
        for piece, gap in zip_longest(pieces[::2], pieces[1::2], fillvalue="")
        if piece.casefold() not in registered
    )
