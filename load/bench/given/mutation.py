"""Texts that are hard to read: mutated along a grammar, marks over and over, within layers of openers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Marks:
    """What a text is mutated with: openers, closers, joints, words; what is repeated, and after what."""

    open: Sequence[str]
    close: Sequence[str]
    join: Sequence[str]
    atoms: Sequence[str]
    repeated: Sequence[str]
    starts: Sequence[str]


class Mutation:
    """Draws from `chance` alone, so that a seed gives the same texts for ever.

    `sizes`: characters that repeated marks may fill; `longest`: of a mutated text; `depth`: layers at most.
    """

    def __init__(
        self, chance: random.Random, marks: Marks, sizes: Sequence[int], *, longest: int, depth: int
    ) -> None:
        self._chance = chance
        self._marks = marks
        self._sizes = sizes
        self._longest = longest
        self._depth = depth

    def mutated(self, text: str) -> str:
        """Marks put in, parts doubled, cut out, or exchanged with those of the end."""
        chance, marks = self._chance, self._marks
        for _ in range(chance.randint(1, 12)):
            first, last = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
            part = text[first:last]
            mark = chance.choice(chance.choice((marks.open, marks.close, marks.join, marks.atoms)))
            text = chance.choice(
                (
                    text[:first] + mark + text[first:],
                    text[:first] + mark + part + chance.choice(marks.close) + text[last:],
                    text[:last] + part * chance.randint(1, 8) + text[last:],
                    text[:first] + text[last:],
                    text[last:] + chance.choice(marks.join) + part,
                )
            )[: self._longest]
        return text

    def repeated(self) -> str:
        """One to three marks over and over, up to a size, after an innocent beginning."""
        chance = self._chance
        unit = "".join(chance.choice(self._marks.repeated) for _ in range(chance.randint(1, 3)))
        size = chance.choice(self._sizes)
        start = chance.choice(self._marks.starts)
        return start + unit * (size // len(unit) + 1)

    def nested(self, text: str) -> str:
        """A text within layers of openers and closers, as deep as it gets."""
        chance, marks = self._chance, self._marks
        for _ in range(chance.randint(1, self._depth)):
            opened = chance.choice(marks.open)
            text = f"{opened}{chance.choice(('', *marks.atoms))}{text}{chance.choice(marks.close)}"
        return text


def marks_in(path: Path) -> dict[str, Any]:
    """The file's `marks` as Marks, and what else it holds."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    return {**document, "marks": Marks(**document["marks"])}
