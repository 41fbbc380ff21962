"""Which code points a reader sees, for whatever shows a stranger's text: a terminal, a page, a chat.

Control characters, bidirectional overrides (CVE-2021-42574), zero-width characters, Unicode tags, variation
selectors and letters without a shape cannot be seen, and a model reads them all the same.
"""

from __future__ import annotations

import re

_SHAPELESS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable by their category, and still nothing to see (DerivedCoreProperties: Default_Ignorable)."""


def is_seen(character: str) -> bool:
    """Whether a reader sees this code point."""
    return character.isprintable() and not _SHAPELESS.match(character)


def number(characters: str) -> str:
    """Each of the code points by its number: <U+202E>."""
    return "".join(f"<U+{ord(character):04X}>" for character in characters)


def visible_text(text: str) -> str:
    """The text, in which each code point that cannot be seen stands by its number; line feeds stay."""
    return "".join(
        character if character == "\n" or is_seen(character) else number(character) for character in text
    )
