"""Texts that are hard to read: panel texts mutated along their grammar, and marks repeated to stall a parser.

Seeded, so that every round and every release reads the same ones. The marks are data, in fuzz.json.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from app.core.gate1.leaves import leaves
from load.bench.events import panel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 1981
LONGEST = 65_536
"""Characters of a fuzzed text: as many as a record of 64 KB can hold."""
_SIZES = (16, 64, 256, 1024, 2048, 4000, 4096, 8192, 16_384, LONGEST)
_MARKS = json.loads(Path(__file__).with_suffix(".json").read_bytes())
_PLACES, _REPEATED = _MARKS["places"], _MARKS["repeated"]
_OPEN, _CLOSE, _JOIN, _ATOMS = (_MARKS[name] for name in ("open", "close", "join", "atoms"))


class Fuzzed(NamedTuple):
    """Parameters for a tool."""

    tool: str
    parameters: dict[str, object]


def fuzzed(count: int) -> Iterator[Fuzzed]:
    """`count` inputs, a third of each sort."""
    chance = random.Random(SEED)
    texts = [leaf.text for row in panel() for leaf in leaves(row.parameters)]
    sorts: tuple[Callable[[], str], ...] = (
        lambda: _mutated(chance, chance.choice(texts)),
        lambda: _repeated(chance),
        lambda: _nested(chance, chance.choice(texts)),
    )
    for number in range(count):
        tool, key = chance.choice(_PLACES)
        yield Fuzzed(tool, {key: sorts[number % len(sorts)]()[:LONGEST]})


def _mutated(chance: random.Random, text: str) -> str:
    """Marks of the grammars put in, parts doubled, cut out, or exchanged with those of the end."""
    for _ in range(chance.randint(1, 12)):
        first, last = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        part = text[first:last]
        mark = chance.choice(chance.choice((_OPEN, _CLOSE, _JOIN, _ATOMS)))
        text = chance.choice(
            (
                text[:first] + mark + text[first:],
                text[:first] + mark + part + chance.choice(_CLOSE) + text[last:],
                text[:last] + part * chance.randint(1, 8) + text[last:],
                text[:first] + text[last:],
                text[last:] + chance.choice(_JOIN) + part,
            )
        )[: _SIZES[-4]]
    return text


def _repeated(chance: random.Random) -> str:
    """One to three marks over and over, up to a size, after an innocent beginning."""
    unit = "".join(chance.choice(_REPEATED) for _ in range(chance.randint(1, 3)))
    size = chance.choice(_SIZES)
    start = chance.choice(("", "echo ", "select ", "rm ", "x = ", "1' "))
    return start + unit * (size // len(unit) + 1)


def _nested(chance: random.Random, text: str) -> str:
    """A text within quotes, brackets and commands, as deep as it gets."""
    for _ in range(chance.randint(1, 40)):
        opened = chance.choice(_OPEN)
        text = f"{opened}{chance.choice(('', *_ATOMS))}{text}{chance.choice(_CLOSE)}"
    return text
