"""Overlapping windows of a text: an encoder reads a bounded number of word pieces and drops the rest unsaid.

A window is counted in characters, not words: a word has no bounded length, and a script without spaces has no
words to count. Where the pieces of a window still exceed the encoder's bound (one piece a character), whoever
cuts the text into pieces cuts it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.memory.similarity_settings import WindowSettings

LONGEST_WORD = 32
"""A window grows by up to this many characters at each side so as not to cut a word; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class Windows:
    """`texts` are the first windows in their order, `of` is how many the whole text has."""

    texts: tuple[str, ...]
    of: int


def windows_of(text: str, settings: WindowSettings) -> Windows:
    """Windows that cover `text` and overlap, up to the cap. Costs no more for a text beyond the cap."""
    step = settings.characters - settings.overlap
    of = max(1, -(-(len(text) - settings.overlap) // step)) if text else 0
    starts = range(0, min(of, settings.most) * step, step)
    cut = (_window(text, start, start + settings.characters) for start in starts)
    return Windows(tuple(cut), of)


def _window(text: str, start: int, end: int) -> str:
    return text[_left(text, start) : _right(text, end)]


def _left(text: str, start: int) -> int:
    """The beginning of the word that `start` is in."""
    for at in range(start, max(0, start - LONGEST_WORD), -1):
        if text[at - 1].isspace():
            return at
    return start if start > LONGEST_WORD else 0


def _right(text: str, end: int) -> int:
    """The end of the word that the character before `end` is in."""
    for at in range(end, min(len(text), end + LONGEST_WORD)):
        if text[at].isspace():
            return at
    return min(end, len(text))
