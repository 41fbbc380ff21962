"""What an id says in words: without numbers, hashes and random signs, which mean nothing to a reader.

Ids of one system differ in just these, so that most have the same wording and are inspected once. What could
be a text in disguise is left as it is: digits that stand for letters, hex and base64 of something readable,
rows of numbers, anything percent-encoded.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sluice.detection.disguises.decodings import decodings, is_readable_hex
from sluice.detection.disguises.spelling import part_identifiers
from sluice.detection.disguises.vocabulary import LONGEST

if TYPE_CHECKING:
    from sluice.detection.disguises.vocabulary import Vocabulary

_NUMBERED = re.compile(r"([A-Za-z]{1,16}[-_:.#])[0-9]{1,15}")
"""What most ids are: a word and a number. Seen at once, in a tenth of the time."""
_SIMPLE = re.compile(r"[A-Za-z0-9._~:/@+#?=&,;()!*$-]*")
_QUOTED_PRINTABLE = re.compile(r"=[0-9A-F]{2}")
_NUMBERS = re.compile(r"(?<![0-9A-Za-z])(?:[0-9]+[^0-9A-Za-z]{1,2}){6}[0-9]")
"""Seven numbers in a row: by that many a text is written in decimal, octal or binary."""
_HEX = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{16,})"
    r"(?![0-9A-Za-z])"
)
_NUMBER = re.compile(r"(?<![0-9A-Za-z])[0-9]{1,15}(?![0-9A-Za-z])")
_MAY_BE_MIXED = re.compile(r"[0-9]|[a-z][A-Z]")
_MIXED = re.compile(r"(?=[0-9]*+[A-Za-z]++[0-9]|[0-9]++[A-Za-z]|[A-Za-z]*?[a-z][A-Z])[0-9A-Za-z]++")
_RUNS = (
    ("base64", re.compile(r"[a-z0-9][A-Z]")),
    ("base32", re.compile(r"[A-Z2-7]{16}")),
    ("hex", re.compile(r"(?:[0-9A-Fa-f]{2}[:,;-]){5}")),
)
_SCHEME = re.compile(r"(?<![0-9A-Za-z])[A-Za-z][A-Za-z0-9+.-]*://")
_AUTHORITY = re.compile(r"(?<![0-9A-Za-z])[A-Za-z][A-Za-z0-9+.-]*://[^/?# ]*")
_SEGMENTS = re.compile(r"[/?#&=]+")
_PARTS = (re.compile(r"[^0-9A-Za-z+_-]+"), re.compile(r"[^0-9A-Za-z]+"))
_SHORTEST_RUN = 11
_APART = " . "
"""Between a text and its runs: with a blank alone they would be lines of one code."""
_ANY_WORD = re.compile(r"\w{2,}")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")
_PROSE = 5
"""So many words may be a sentence, in which numbers stand for something too."""
_SENTENCE = 3
"""Words that a sentence has at least."""
_PIECE = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}")
_WORD = re.compile(r"[a-z]{2,}|(?<![a-z])[ai](?![a-z])")
_OF_ADDRESSES = frozenset({"http", "https", "www", "com", "org", "net", "gate", "source", "feed"})
"""Words without which there is hardly an address."""
_SHORT = 2
"""An unknown word of so many letters is an abbreviation: kb, wo, id."""
_SHORTEST_WORD = 3


def normalise_wording(text: str, words: Vocabulary) -> str:
    """The id without what says nothing. Two ids of one wording hold the same words in the same order."""
    word = read_numbered_word(text)
    if word is not None:
        return word
    cues = [how for how, cue in _RUNS if cue.search(text)]
    hidden = _find_hidden(text, cues) if cues else []
    if (
        hidden
        or _SIMPLE.fullmatch(text) is None
        or _NUMBERS.search(text) is not None
        or ("=" in text and len(_QUOTED_PRINTABLE.findall(text)) > 1)
        or any(map(is_readable_hex, _HEX.findall(text)))
    ):
        return _APART.join([text, *hidden])
    left = _NUMBER.sub("", _HEX.sub("", text))
    if _MAY_BE_MIXED.search(left) is not None:
        left = _MIXED.sub(partial(_unless_words, words), left)
    is_prose = left != text and len(_LONG_WORD.findall(cut_host(left))) >= _PROSE
    return f"{text}{_APART}{left}" if is_prose else left


def read_numbered_word(text: str) -> str | None:
    """The wording of an id that is a word and a number, None of any other text."""
    numbered = _NUMBERED.fullmatch(text)
    return None if numbered is None else numbered[1]


def readings(a_wording: str) -> list[str]:
    """The wording, and each of its segments that may be a sentence by itself."""
    segments = _SEGMENTS.split(_SCHEME.sub("", a_wording))
    if len(segments) == 1:
        return [a_wording]
    within = dict.fromkeys(map(write_as_words, (cut_host(a_wording), *segments)))
    return [a_wording, *(part for part in within if len(_ANY_WORD.findall(part)) >= _SENTENCE)]


def says_something(a_wording: str, words: Vocabulary) -> bool:
    """Whether there is a word in it that could be part of an order. An unknown word may be one."""
    return (
        not a_wording.isascii()
        or "%" in a_wording
        or any(map(str.isdigit, a_wording))
        or any(
            word in "ai" or word in words.looked_for or (len(word) > _SHORT and word not in words.dictionary)
            for word in _WORD.findall(a_wording.casefold())
            if word not in _OF_ADDRESSES
        )
    )


def write_as_words(a_wording: str) -> str:
    """For reading on from one text into the next: words with blanks between them, nothing encoded."""
    return part_identifiers(unquote(_SCHEME.sub("", a_wording))).replace("_", " ")


def cut_host(a_wording: str) -> str:
    """Of a reference what is behind its host."""
    return _AUTHORITY.sub("", a_wording).lstrip("/")


def _find_hidden(text: str, cues: list[str]) -> list[str]:
    """Runs in the text that are code of something readable: between other letters no decoder sees them."""
    runs = dict.fromkeys(run for part in _PARTS for run in part.split(text) if len(run) >= _SHORTEST_RUN)
    readable = [run for run in runs if any(decoded for _, decoded in decodings(run, cues))]
    if not readable and any(decoded for _, decoded in decodings(text, cues)):
        return [text]
    return readable


def _unless_words(words: Vocabulary, token: re.Match[str]) -> str:
    """Nothing for letters and digits at random; a run in which a word stands or begins stays."""
    run, folded = token[0], token[0].casefold()
    pieces = _PIECE.findall(run)
    if any(_is_word(piece.casefold(), words) for piece in pieces) or words.places(folded):
        return run
    return run if len(run) <= LONGEST and words.remove_leet(folded) is not None else ""


def _is_word(piece: str, words: Vocabulary) -> bool:
    """A word, or one in disguise."""
    return len(piece) >= _SHORTEST_WORD and (piece in words.dictionary or words.hints(piece) is not None)
