"""Which kinds of target a word is: all are asked at once, since patterns ask for one after the other."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import re2

from app.core.gate1.commands.argument_kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

REMEMBERED_WORDS = 4096
LONGEST_REMEMBERED = 96
"""Longer words are not kept; those that come again are mostly subcommands and paths."""
_MARKS = re.compile(r"[/~$.*:%\\{_]")
"""No kind of target is a word without one of these."""
_MEMORY = 64 << 20
"""Bytes for the states of the common automaton: a set without any left would say that nothing matches."""
_BITS = {name: 1 << place for place, name in enumerate(KINDS)}


def _all_kinds() -> re2.Set:
    options = re2.Options()
    options.max_mem = _MEMORY
    kinds = re2.Set.FullMatchSet(options)
    for form in KINDS.values():
        kinds.Add(f"(?s)(?:{form})")
    kinds.Compile()
    return kinds


_ALL = _all_kinds()


def kinds_among(names: Iterable[str]) -> int:
    """The kinds of those names, as bits of one number."""
    bits = 0
    for name in names:
        bits |= _BITS[name]
    return bits


def kinds_of(word: str) -> int:
    """The kinds that a word in lower case is, as bits of one number; linear in the word."""
    if _MARKS.search(word) is None:
        return 0
    return _remembered(word) if len(word) <= LONGEST_REMEMBERED else _found(word)


def _found(word: str) -> int:
    bits = 0
    for place in _ALL.Match(word.encode("utf-8", "replace")) or ():
        bits |= 1 << place
    return bits


_remembered = lru_cache(maxsize=REMEMBERED_WORDS)(_found)
