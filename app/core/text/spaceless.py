"""Text whose spaces were moved: letter by letter, in equal portions, or all run together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.text.vocabulary import Vocabulary

_SPACED = re.compile(r"(?<!\S)\S(?:[ \t]{1,3}\S(?!\S)){4,}+")
_WIDE = re.compile(r"[ \t]{2,}")
_NARROW = re.compile(r"[ \t]+")
_DOTTED = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z@$!](?:[-._*~|/+,:;^=][0-9A-Za-z@$!](?![0-9A-Za-z])){2,}+")
_DOT = re.compile(r"[-._*~|/+,:;^=]")
_RUN = re.compile(r"[0-9A-Za-z@$!|]{16,}")
_LEAST_PORTIONS = 6
_LONGEST_PORTION = 8
_TWO = 2
_LONG = 12
"""Characters that nobody writes apart for another reason."""
_WINDOW = 256
"""Characters on each side of a word looked for that are parted into words, in a run longer than both: parting
takes 1.5 us a character, looking for words .1."""
TELLS = [
    ("spaceless", r"\b\w(?:[^\w\n]{1,3}\b\w\b){3}|\S[ \t]\S[ \t]\S[ \t]\S[ \t]\S|[0-9a-z@$!|]{16}"),
    ("letters apart", r"[0-9a-z@$!](?:[-._*~|/+,:;^=][0-9a-z@$!]){2}|\S(?:[ \t]{1,3}\S){4}"),
    ("run", r"[0-9a-z@$!|]{16}"),
]
"""RE2 expressions by what they tell. Without the first no text is written letter by letter or in a run;
without the second there is nothing to close up, without the third nothing to part."""


def closed_up(text: str, words: Vocabulary) -> str:
    """Letters that stand alone as words; where some gaps are wider than others, those part the words.

    Where no word looked for is among them, the text is left as it is: "e.g.", "24/7/365".
    """
    closed = list[str]()

    def close(run: str) -> str:
        closed.append(run)
        return run

    text_closed = _SPACED.sub(
        lambda run: close(_closed(run[0])), _DOTTED.sub(lambda run: close(_DOT.sub("", run[0])), text)
    )
    return text_closed if any(_is_text(run.casefold(), words) for run in closed) else text


def _is_text(run: str, words: Vocabulary) -> bool:
    return len(run) >= _LONG or any(
        one in words.looked_for or words.without_leet(one) in words.looked_for for one in run.split()
    )


def _closed(run: str) -> str:
    return " ".join(_NARROW.sub("", word) for word in _WIDE.split(run))


def of_portions(text: str) -> str:
    """A text cut into portions of one length, without the cuts; any other text as it is."""
    first = text[: _LEAST_PORTIONS * (_LONGEST_PORTION + 1)].split(None, _TWO)
    size = len(first[0]) if first else 0
    if not 1 < size <= _LONGEST_PORTION or (len(first) > _TWO and len(first[1]) != size):
        return text
    portions = text.split()
    cut = (
        len(portions) >= _LEAST_PORTIONS
        and all(len(one) == size for one in portions[:-1])
        and len(portions[-1]) <= size
    )
    return "".join(portions) if cut else text


def parted(text: str, words: Vocabulary) -> str:
    """Long runs of letters as words, where there is a word looked for among them."""
    return _RUN.sub(lambda run: _parted(run[0].casefold(), words) or run[0], text)


def _parted(run: str, words: Vocabulary) -> str | None:
    found = words.places(run)
    if not found:
        return None
    windows = [(max(0, found[0] - _WINDOW), found[0] + _WINDOW)]
    for place in found[1:]:
        if place - _WINDOW > windows[-1][1]:
            windows.append((place - _WINDOW, place + _WINDOW))
        else:
            windows[-1] = (windows[-1][0], place + _WINDOW)
    return "\n".join(" ".join(words.parted(run[start:end])) for start, end in windows)
