"""Words that are written to be read by a model and missed by a filter, written as they are meant.

Only words that some expression looks for are put right, so ordinary text is left as it is, read once. Spaces
that were moved are put back: letter by letter, in equal portions, or all run together.

OWASP LLM Prompt Injection Prevention Cheat Sheet; "ArtPrompt" and FlipAttack (arXiv 2402.11753, 2410.02832).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sluice.detection.disguises.vocabulary import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.detection.disguises.vocabulary import Vocabulary

_LEET_TOKEN = re.compile(rf"(?<![0-9a-z@$!|+])(?=[a-z]*+[0-9@$!|+])[0-9a-z@$!|+]{{2,{LONGEST}}}+")
LEET_RUNS = bytes(
    code if chr(code) in "0123456789abcdefghijklmnopqrstuvwxyz@$!|+" else 0x20 for code in range(256)
)
_NUMBER = re.compile(r"\b[0-9@$!|+]{1,5}\b")
_TOKEN = re.compile(r"[a-z]+")
_SPLIT = re.compile(r"[a-z]{1,12}(?>(?:[\s\-._*~|/\\+^]{1,2}[a-z]{1,12}){1,9})")
_BETWEEN = re.compile(r"[\s\-._*~|/\\+^]+")
_IDENTIFIER = re.compile(
    r"(?<![A-Za-z])[A-Za-z]++(?>(?:_[A-Za-z]++)+)|(?<![a-z])[a-z]++(?>(?:[A-Z][a-z]++){2,})"
)
_CAMEL = re.compile(r"_+|(?<=[a-z])(?=[A-Z])")
_MOST_PARTS = 6
_SHORTEST_FEW = 2
_OTHER = r"[^\s\x00-\x7f\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f]"
_GLUED = re.compile(
    rf"(?<=[a-zA-Z]){_OTHER}++|(?<!{_OTHER}){_OTHER}++(?=[a-zA-Z])"
    r"|(?<=[a-zA-Z] )[^\w\s\x00-\x7f]++(?= [a-zA-Z])"  # a picture or an arrow between two words
)
"""A run is looked at from its start alone: from each of its letters, 16 000 of them took 3 s."""
_LEAST_GLUED = 2
_LONG_WORD = 4


def remove_glued(text: str) -> str:
    """A blank for letters, marks and digits of other scripts, and for symbols, where they stand at Latin
    letters: they part its words from the patterns'.

    Once is no disguise: a sign of a unit, or a foreign name with its ending.
    """
    cut, times = _GLUED.subn(" ", text)
    return cut if times >= _LEAST_GLUED else text


def remove_leet(text: str, words: Vocabulary) -> str:
    """Digits and signs as the letters they stand for, in words that this makes known; then numbers too."""
    folded = text.casefold()
    if not words.tells_of_leet(folded.encode().translate(LEET_RUNS).decode().split()):
        return text
    words_found = set[str]()

    def read(token: re.Match[str]) -> str:
        word = words.remove_leet(token[0]) if not token[0].isdigit() else None
        if word and len(word) > _SHORTEST_FEW:
            words_found.add(word)
        return word or _read_to_the_sign(token[0], words)

    plain = _LEET_TOKEN.sub(read, folded)
    if not any(map(words.is_evidence, words_found)):
        return text
    return _NUMBER.sub(lambda match: words.remove_leet(match[0]) or match[0], plain)


def _read_to_the_sign(token: str, words: Vocabulary) -> str:
    """A token whose last sign is punctuation after all: "n0w!"."""
    word = words.remove_leet(token.rstrip("!|+")) if token[-1] in "!|+" else None
    return word + "!" if word else token


def ungarble(text: str, words: Vocabulary) -> str:
    """Words with their inner letters in another order, or doubled."""
    return _keep_unless_changed(
        text, _TOKEN.sub(lambda match: _ungarble_word(match[0], words), text.casefold())
    )


def _ungarble_word(word: str, words: Vocabulary) -> str:
    return word if word in words.dictionary else words.ungarble(word) or word


def _keep_unless_changed(text: str, spelling: str) -> str:
    """The text itself where nothing but its case is another."""
    return text if spelling == text.casefold() else spelling


def rejoin(text: str, tokens: list[str], words: Vocabulary, fragments: frozenset[str]) -> str:
    """Words that were parted by a sign, a space or a line end.

    `tokens`: the text's runs of ASCII letters, casefolded; `fragments`: what may be parts of some words.
    """
    broken = (index for index, token in enumerate(tokens) if token in fragments)
    if not any(_is_part(tokens, index, words) for index in broken):
        return text
    return _keep_unless_changed(text, _SPLIT.sub(lambda run: _rejoin_run(run[0], words), text.casefold()))


def _is_part(tokens: list[str], index: int, words: Vocabulary) -> bool:
    """Whether a token makes a word looked for with those before or after it."""
    for first in range(max(0, index - _MOST_PARTS + 1), index + 1):
        joined = "".join(tokens[first : index + 1])
        for last in range(index + 1, min(first + _MOST_PARTS, len(tokens) + 1)):
            if last - first > 1 and joined in words.looked_for:
                return True
            joined += tokens[last] if last < len(tokens) else ""
    return False


def _rejoin_run(run: str, words: Vocabulary) -> str:
    parts = [match.span() for match in _TOKEN.finditer(run)]
    broken = [words.is_fragment(run[start:end]) for start, end in parts]
    out, at, done = [], 0, 0
    while at < len(parts):
        count = (
            _count_joined(run, parts[at : at + _MOST_PARTS], words)
            if any(broken[at : at + _MOST_PARTS])
            else 1
        )
        start, end = parts[at][0], parts[at + count - 1][1]
        out += [run[done:start], _BETWEEN.sub("", run[start:end])]
        at, done = at + count, end
    return "".join(out) + run[done:]


def _count_joined(run: str, parts: list[tuple[int, int]], words: Vocabulary) -> int:
    """How many of the parts are one word looked for; 1 if none are."""
    pieces = [run[start:end] for start, end in parts]
    counts = (n for n in range(len(pieces), 1, -1) if _is_one(pieces[:n], words))
    return next(counts, 1)


def _is_one(pieces: list[str], words: Vocabulary) -> bool:
    """Whether pieces are one word looked for, and not one beside another ("sys-tem pro-mpt")."""
    return "".join(pieces) in words.looked_for and not any(
        _is_long("".join(pieces[:cut]), words) and _is_long("".join(pieces[cut:]), words)
        for cut in range(1, len(pieces))
    )


def _is_long(word: str, words: Vocabulary) -> bool:
    return len(word) >= _LONG_WORD and word in words.looked_for


def shift_letters(text: str, by: int) -> str:
    """The text with every letter moved back along the alphabet; 13 is ROT13."""
    lower, upper = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    moved = lower[by:] + lower[:by] + upper[by:] + upper[:by]
    return text.translate(str.maketrans(moved, lower + upper))


def reversals(text: str) -> Iterator[str]:
    """Read from its end, and with each word read from its end."""
    yield text[::-1]
    yield re.sub(r"\S+", lambda word: word[0][::-1], text)


def part_identifiers(text: str) -> str:
    """`ignore_all_rules` and `ignoreAllRules` as words."""
    return _IDENTIFIER.sub(lambda name: _CAMEL.sub(" ", name[0]), text)


_SPACED = re.compile(r"(?<!\S)\S(?>(?:[ \t]{1,3}\S(?!\S)){4,})")
_WIDE = re.compile(r"[ \t]{2,}")
_NARROW = re.compile(r"[ \t]+")
_DOTTED = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Za-z@$!](?>(?:[-._*~|/+,:;^=][0-9A-Za-z@$!](?![0-9A-Za-z])){2,})"
)
_DOT = re.compile(r"[-._*~|/+,:;^=]")
_RUN = re.compile(r"[0-9A-Za-z@$!|]{16,}")
_LEAST_PORTIONS = 6
_LONGEST_PORTION = 8
_TWO = 2
_LONG = 12
"""Characters that are not written apart for any other reason."""
_WINDOW = 256
"""Characters on each side of a word looked for that are parted into words, in a run longer than both: parting
takes 1.5 us a character, looking for words .1."""
CUES = [
    ("spaceless", r"\b\w(?:[^\w\n]{1,3}\b\w\b){3}|\S[ \t]\S[ \t]\S[ \t]\S[ \t]\S|[0-9a-z@$!|]{16}"),
    ("letters apart", r"[0-9a-z@$!](?:[-._*~|/+,:;^=][0-9a-z@$!]){2}|\S(?:[ \t]{1,3}\S){4}"),
    ("run", r"[0-9a-z@$!|]{16}"),
]
"""RE2 expressions by what they are a cue to. Without the first no text is written letter by letter or in a
run; without the second there is nothing to close up, without the third nothing to part."""


def close_up(text: str, words: Vocabulary) -> str:
    """Letters that stand alone as words; where some gaps are wider than others, those part the words.

    Where no word looked for is among them, the text is left as it is: "e.g.", "24/7/365".
    """
    closed = list[str]()

    def close(run: str) -> str:
        closed.append(run)
        return run

    text_closed = _SPACED.sub(
        lambda run: close(_close_run(run[0])), _DOTTED.sub(lambda run: close(_DOT.sub("", run[0])), text)
    )
    return text_closed if any(_is_text(run.casefold(), words) for run in closed) else text


def _is_text(run: str, words: Vocabulary) -> bool:
    return len(run) >= _LONG or any(
        word in words.looked_for or words.remove_leet(word) in words.looked_for for word in run.split()
    )


def _close_run(run: str) -> str:
    return " ".join(_NARROW.sub("", word) for word in _WIDE.split(run))


def join_portions(text: str) -> str:
    """A text cut into portions of one length, without the cuts; any other text as it is."""
    first = text[: _LEAST_PORTIONS * (_LONGEST_PORTION + 1)].split(None, _TWO)
    size = len(first[0]) if first else 0
    if not 1 < size <= _LONGEST_PORTION or (len(first) > _TWO and len(first[1]) != size):
        return text
    portions = text.split()
    cut = (
        len(portions) >= _LEAST_PORTIONS
        and all(len(portion) == size for portion in portions[:-1])
        and len(portions[-1]) <= size
    )
    return "".join(portions) if cut else text


def part_words(text: str, words: Vocabulary) -> str:
    """Long runs of letters as words, where there is a word looked for among them."""
    return _RUN.sub(lambda run: _part_run(run[0].casefold(), words) or run[0], text)


def _part_run(run: str, words: Vocabulary) -> str | None:
    places = words.places(run)
    if not places:
        return None
    windows = [(max(0, places[0] - _WINDOW), places[0] + _WINDOW)]
    for index in places[1:]:
        if index - _WINDOW > windows[-1][1]:
            windows.append((index - _WINDOW, index + _WINDOW))
        else:
            windows[-1] = (windows[-1][0], index + _WINDOW)
    return "\n".join(" ".join(words.part(run[start:end])) for start, end in windows)
