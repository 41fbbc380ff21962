"""Two small memories over whole numbers: a page is made when a number in it comes, so that a forged number
near 2^53 costs one page and not the space up to it.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b

_PAGE = 1024


class NumberSet:
    """Which numbers were seen: one bit each where they are dense."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def add(self, number: int) -> bool:
        """True if the number is new."""
        page, place = divmod(number, _PAGE)
        bits = self._pages.setdefault(page, bytearray(_PAGE // 8))
        byte, bit = place >> 3, 1 << (place & 7)
        new = not bits[byte] & bit
        bits[byte] |= bit
        return new


class Fingerprints:
    """A fingerprint of the hash that stands at each number: 8 bytes each where they are dense."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}

    def put(self, number: int, digest: str) -> None:
        """Remember the hash at that number: the record's own text, which a forger may have written."""
        page, place = divmod(number, _PAGE)
        if page not in self._pages:
            self._pages[page] = array("Q", bytes(8 * _PAGE))
        self._pages[page][place] = _fingerprint(digest)

    def same(self, number: int, digest: str) -> bool:
        """Whether that hash stands at the number."""
        page, place = divmod(number, _PAGE)
        return page in self._pages and self._pages[page][place] == _fingerprint(digest)


def _fingerprint(digest: str) -> int:
    return int.from_bytes(blake2b(digest.encode(), digest_size=8).digest(), "big")
