"""Where sentences begin and end, in prose, lists and chat logs; one linear pass."""

from __future__ import annotations

import re

_END = re.compile(
    r"(?<![.!?])[.!?]++[\"')\]]*+(?=\s++[^\sa-z])"  # a full stop before what may begin a sentence
    r"|[。！？।؟۔]++"
    r"|(?<=[.!?:;])[ \t]*+\n"
    r"|\n[ \t]*+(?:\r?\n|(?=[-*•#>|<{\[]|\d{1,3}[.)]\s))"  # a blank line, an item, a heading, a tag
)
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|etc|mr|mrs|ms|dr|no|fig|approx|incl|resp)\.$", re.IGNORECASE)
_LONGEST_ABBREVIATION = 9


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence; together they cover the text."""
    bounds = [0]
    bounds += [
        end.end() for end in _END.finditer(text) if not _abbreviated(text, end.end())
    ]
    if bounds[-1] != len(text):
        bounds.append(len(text))
    return list(zip(bounds, bounds[1:], strict=False))


def _abbreviated(text: str, end: int) -> bool:
    return bool(_ABBREVIATION.search(text, max(0, end - _LONGEST_ABBREVIATION), end))
