"""The words that a library's expressions look for, whose disguises are taken off."""

from __future__ import annotations

import re
from itertools import islice, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LETTERS, _WORDS = r"[^\W\d_]", r"(?:[^\W\d_]| )"
_PIECES = re.compile(rf"(?:{_LETTERS}+|\(\?:{_WORDS}*(?:\|{_WORDS}*)+\))+")
"""Letters and choices between words, as demands write them."""
_PIECE = re.compile(rf"\(\?:([^()]*)\)|({_LETTERS}+)")
_NEXT_SET, _FIRST_SET = re.compile(r"\) ?\|\\[bB] ?\(\?:"), re.compile(r"\(\?:\\b ?\(\?:")
"""How `demanded` writes one of many strings."""
_MOST_SPELLINGS = 1024
_SHORTEST_STEM = 4
_JOINED_BEFORE = frozenset(")]*0123456789_\\")
_JOINED_AFTER = frozenset(".([0123456789_")


def sought(ranked: Iterable[str], demands: Iterable[str]) -> list[str]:
    """Whole words that the demands of expressions spell out, and ranked ones that begin as these do."""
    words = set[str]()
    begins = set[str]()
    for demand in set(demands):
        text = _FIRST_SET.sub(" (?:", _NEXT_SET.sub("|", demand)).replace("))", ")")
        for found in _PIECES.finditer(text):
            spelt = {word for spelling in _spellings(found[0]) for word in spelling.split()}
            begins |= spelt
            start, end = found.span()
            if text[start - 1 : start] not in _JOINED_BEFORE and text[end : end + 1] not in _JOINED_AFTER:
                words |= spelt
    known = (word for word in ranked if _begins(word, begins))
    return sorted({*words, *known})


def _begins(word: str, begins: set[str]) -> bool:
    return word in begins or any(word[:end] in begins for end in range(_SHORTEST_STEM, len(word)))


def _spellings(piece: str) -> Iterator[str]:
    """Every word of a few letters and choices."""
    parts = [one[1].split("|") if one[1] else [one[2]] for one in _PIECE.finditer(piece)]
    return ("".join(spelling) for spelling in islice(product(*parts), _MOST_SPELLINGS))
