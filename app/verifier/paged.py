"""Two small memories over whole numbers: a page is made when a number in it comes, so that a forged number
near 2^53 costs one page and not the space up to it.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b

_PAGE = 1024
_OFFSET_BITS = 48
_OFFSETS = (1 << _OFFSET_BITS) - 1


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
    """A fingerprint of the hash that stands at each number, and where its record lies: 16 bytes each where
    they are dense."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}
        self._places: dict[int, array[int]] = {}
        self._topics: dict[str, int] = {}

    def put(self, number: int, digest: str, topic: str, offset: int) -> None:
        """Remember the hash at that number: the record's own text, which a forger may have written."""
        page, place = divmod(number, _PAGE)
        if page not in self._pages:
            self._pages[page] = array("Q", bytes(8 * _PAGE))
            self._places[page] = array("Q", bytes(8 * _PAGE))
        self._pages[page][place] = _fingerprint(digest)
        topic_number = self._topics.setdefault(topic, len(self._topics))
        self._places[page][place] = topic_number << _OFFSET_BITS | offset & _OFFSETS

    def known(self, number: int) -> bool:
        """Whether anything stands at the number."""
        page, place = divmod(number, _PAGE)
        return page in self._pages and self._pages[page][place] != 0

    def lies(self, number: int) -> tuple[str, int]:
        """Topic and offset of the record that stands at the number; one must."""
        page, place = divmod(number, _PAGE)
        at = self._places[page][place]
        return list(self._topics)[at >> _OFFSET_BITS], at & _OFFSETS

    def same(self, number: int, digest: str) -> bool:
        """Whether that hash stands at the number."""
        page, place = divmod(number, _PAGE)
        return page in self._pages and self._pages[page][place] == _fingerprint(digest)


def _fingerprint(digest: str) -> int:
    return int.from_bytes(blake2b(digest.encode(), digest_size=8).digest(), "big")
