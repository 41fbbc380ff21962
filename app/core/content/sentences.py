# ruff: noqa: RUF001 - the full stops of other scripts are meant
"""Where sentences begin and end, in prose, lists and chat logs; one linear pass."""

from __future__ import annotations

import re
from itertools import pairwise

_END = re.compile(
    r"[.!?:;\n。！？।؟۔](?:"  # first, which is ten times as fast as to try each of these everywhere
    r"(?<=[.!?])(?<![.!?].)[.!?]*+[\"')\]]*+(?=\s++[^\sa-z])(?:[ \t]*+\n)?"  # before a sentence's beginning
    r"|(?<=[.!?])(?<![.!?].)[.!?]*+(?=[^\x00-\x7f])|(?<=[。！？।؟۔])[。！？।؟۔]*+"
    r"|(?<=[.!?:;])[ \t]*+\n"
    r"|(?<=\n)(?:(?:[ \t]*+\r?\n)++|[ \t]*+(?=[-*•#>|<{\[]|\d{1,3}[.)]\s)))",  # a blank line, an item
    re.DOTALL,
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|etc|mr|mrs|ms|dr|no|fig|approx|incl|resp)\.$", re.IGNORECASE
)
_LONGEST_ABBREVIATION = 9
LONGEST_SENTENCE = 1000
"""Characters. A longer one is cut between words, so that no search is over more."""


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence; together they cover the text."""
    bounds = [0]
    for end in _END.finditer(text):
        if not _abbreviated(text, end.end()):
            _extend(bounds, text, end.end())
    _extend(bounds, text, len(text))
    return list(pairwise(bounds))


def _extend(bounds: list[int], text: str, end: int) -> None:
    while end - bounds[-1] > LONGEST_SENTENCE:
        blank = text.rfind(" ", bounds[-1] + LONGEST_SENTENCE // 2, bounds[-1] + LONGEST_SENTENCE)
        bounds.append(blank + 1 if blank > 0 else bounds[-1] + LONGEST_SENTENCE)
    if end > bounds[-1]:
        bounds.append(end)


def _abbreviated(text: str, end: int) -> bool:
    return bool(_ABBREVIATION.search(text, max(0, end - _LONGEST_ABBREVIATION), end))
