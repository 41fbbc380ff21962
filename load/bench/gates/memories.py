"""The memory gate without an encoder: its rate, texts of 1 MB and repeated ones, fuzzed texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load.bench.gates import long_writes, memory_fuzz, memory_gate

if TYPE_CHECKING:
    from load.bench.figures import Extent, Figure


def figures(extent: Extent) -> list[Figure]:
    """Each measured in processes of its own."""
    return [
        *memory_gate.figures(extent),
        *long_writes.figures(extent),
        *memory_fuzz.figures(extent),
    ]
