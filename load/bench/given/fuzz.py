"""Actions that are hard to read: texts of the panel mutated, marks repeated to stall a parser, deep layers.

Seeded, so that every round and every release reads the same ones. The marks are data, in fuzz.json.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from app.core.commands.leaves import leaves
from load.bench.given.events import panel
from load.bench.given.mutation import Mutation, marks_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 1981
LONGEST = 65_536
"""Characters of a fuzzed text: as many as a record of 64 KB can hold."""
_MUTATED = 4096
_DEPTH = 40
_SIZES = (16, 64, 256, 1024, 2048, 4000, 4096, 8192, 16_384, LONGEST)
_KNOWN = marks_in(Path(__file__).with_suffix(".json"))


class Fuzzed(NamedTuple):
    """Parameters for a tool."""

    tool: str
    parameters: dict[str, object]


def fuzzed(count: int) -> Iterator[Fuzzed]:
    """`count` inputs, a third of each sort."""
    chance = random.Random(SEED)
    texts = [leaf.text for row in panel() for leaf in leaves(row.parameters)]
    mutation = Mutation(chance, _KNOWN["marks"], _SIZES, longest=_MUTATED, depth=_DEPTH)
    sorts: tuple[Callable[[], str], ...] = (
        lambda: mutation.mutated(chance.choice(texts)),
        mutation.repeated,
        lambda: mutation.nested(chance.choice(texts)),
    )
    for number in range(count):
        tool, key = chance.choice(_KNOWN["places"])
        yield Fuzzed(tool, {key: sorts[number % len(sorts)]()[:LONGEST]})
