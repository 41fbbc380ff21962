"""Text in characters that no reader sees: Unicode tags, variation selectors, zero-width bits.

Unicode tags: J. Thacker and R. Goodside 2024, "ASCII smuggling"; variation selectors: P. Butler 2025,
"Smuggling arbitrary data through an emoji"; zero-width bits: steganography of 2015 and later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def hidden_texts(text: str) -> Iterator[tuple[str, str]]:
    """(encoding, text) of what the text carries unseen."""
    tags = "".join(chr(ord(sign) - _FIRST_TAG) for run in _TAGS.findall(text) for sign in run)
    if tags:
        yield "unicode-tags", tags
    if chosen := "\n".join(filter(None, map(_of_selectors, _SELECTORS.findall(text)))):
        yield "variation-selectors", chosen
    if bits := "\n".join(found for run in _BITS.findall(text) for found in _of_bits(run)):
        yield "zero-width-bits", bits


def _of_selectors(run: str) -> str:
    raw = bytes(
        ord(sign) - _SELECTOR if ord(sign) < _FIRST_TAG else ord(sign) - _SELECTORS_AGAIN + 16 for sign in run
    )
    return raw.decode(errors="ignore")


def _of_bits(run: str) -> Iterator[str]:
    """Either of the two commonest signs may be the one bit."""
    signs = sorted(set(run), key=run.count, reverse=True)[:2]
    for zero in signs:
        bits = "".join("0" if sign == zero else "1" for sign in run if sign in signs)
        raw = bytes(int(bits[at : at + _BYTE], 2) for at in range(0, len(bits) - _BYTE + 1, _BYTE))
        if raw.isascii() and raw.decode().isprintable():
            yield raw.decode()
