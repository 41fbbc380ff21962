"""Patterns over files that are written: places whose contents run by themselves, and what stands there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import re2
from pydantic import Field

from sluice.detection.commands.inspection import Described, Expression
from sluice.detection.library_model import LibraryError
from sluice.text.expression_sets import PatternError, PatternSet

if TYPE_CHECKING:
    from collections.abc import Iterable

Reads = Literal["shell", "cron", "unit", "steps", "strings", "scripts", "python", "powershell"]
"""How a place's content is run: as a shell's, a crontab's commands, what a unit or rule starts, the steps of
a pipeline, the words of a property list, a package's scripts, Python, PowerShell."""
_LONGEST_PATH = 1024
_ANCHORED = "/~*$"
"""With one of these, or with a drive's letter, begins a place that is not relative."""


class FilePattern(Described):
    """A file written at one of `places`, if its content fits.

    A place is a glob over the path in lower case (`*` is any run of characters, `?` one), from the root,
    from a home (`~`), or relative: then in any folder. `content`: an RE2 expression found in what is
    written; `unless`: one that is not. Where the content is not known, as of a copied file, a pattern with
    `content` does not hold. `reads`: what runs of the content, judged by all other patterns.
    """

    places: Annotated[list[Annotated[str, Field(min_length=2, max_length=256)]], Field(min_length=1)]
    content: Expression | None = None
    unless: Expression | None = None
    reads: Reads | None = None
    said: bool = True
    """Whether the place alone is reported; else only what its content runs."""


class Placed(NamedTuple):
    """What is known of a file by its place: the patterns that hold, and how its content is run."""

    patterns: list[FilePattern]
    reads: list[Reads]


class FilePatterns:
    """File patterns; all places are asked in one pass. `cue`: an expression of bare words, one of which
    stands in every text that names a place; None where there are no places."""

    __slots__ = ("_contents", "_hints", "_places", "_unless", "cue")

    def __init__(self, patterns: list[FilePattern]) -> None:
        """Raises LibraryError with the path of the expression that does not compile."""
        self._places = PatternSet([(pattern, _expression(pattern.places)) for pattern in patterns])
        hints = {_hint(location) for pattern in patterns for location in pattern.places}
        self._hints = PatternSet(
            [("place", "|".join(sorted(hint.expression for hint in hints)))] if hints else []
        )
        self.cue = "|".join(map(re2.escape, _shortest(hint.literal for hint in hints))) or None
        self._contents = _compile(patterns, "content")
        self._unless = _compile(patterns, "unless")

    def may_name_place(self, texts: str) -> bool:
        """Whether the texts, joined, may name any place; without it none of them does."""
        return bool(self._hints.matches(texts))

    def is_place(self, path: str) -> bool:
        """Whether any pattern is about the path."""
        return bool(self.find(path))

    def find(self, path: str) -> list[FilePattern]:
        """The patterns of which the path, in its plain spelling, is a place."""
        return self._places.matches(path) if len(path) <= _LONGEST_PATH else []

    def judge(self, path: str, content: str | None) -> Placed:
        """What the patterns say of a content written there."""
        of_place = self.find(path)
        patterns = [pattern for pattern in of_place if pattern.said and self._holds(pattern, content)]
        return Placed(
            patterns, list(dict.fromkeys(pattern.reads for pattern in of_place if pattern.reads is not None))
        )

    def _holds(self, pattern: FilePattern, content: str | None) -> bool:
        wanted, refused = self._contents.get(pattern.id), self._unless.get(pattern.id)
        if content is None:
            return wanted is None
        return (wanted is None or wanted.search(content) is not None) and (
            refused is None or refused.search(content) is None
        )


class _Hint(NamedTuple):
    literal: str
    expression: str


def _hint(location: str) -> _Hint:
    """The longest part of one step of a path that stands in every spelling of it."""
    steps = [part for step in location.split("/") for part in _parts(step)]
    return max(steps, key=lambda step: len(step.literal))


def _parts(step: str) -> list[_Hint]:
    first, *others = re.split(r"[*?]", step)
    begins = _Hint(first, rf"(?:^|[^a-z0-9]){re2.escape(first)}")
    return [begins, *(_Hint(other, re2.escape(other)) for other in others)]


def _shortest(words: Iterable[str]) -> list[str]:
    """Those of the words in which none of the others stands: an automaton of few states."""
    shortest: list[str] = []
    for word in sorted(set(words), key=lambda text: (len(text), text)):
        if not any(shorter in word for shorter in shortest):
            shortest.append(word)
    return shortest


def _expression(places: list[str]) -> str:
    whole = [_glob(location) for location in places if location[0] in _ANCHORED or location[1:2] == ":"]
    anywhere = [
        _glob(location) for location in places if location[0] not in _ANCHORED and location[1:2] != ":"
    ]
    return rf"^(?:{'|'.join([*whole, *(f'(?:.*/)?{glob}' for glob in anywhere)])})$"


def _glob(location: str) -> str:
    return "".join(
        {"*": ".*", "?": "."}.get(part) or re2.escape(part) for part in re.split(r"([*?])", location)
    )


def _compile(patterns: list[FilePattern], field: str) -> dict[str, re.Pattern[str]]:
    compiled = {}
    for index, pattern in enumerate(patterns):
        expression = getattr(pattern, field)
        if expression is not None:
            try:
                PatternSet([(pattern.id, expression)])
            except PatternError as error:
                raise LibraryError(
                    f"$.patterns.files[{index}].{field}: {pattern.id} does not compile: {error.message}"
                ) from None
            compiled[pattern.id] = re2.compile(f"(?is){expression}")
    return compiled
