"""The statistics that workers keep, as their changelog has them: of each partition as of one moment.

A partition writes its own record last in every transaction, with the ledger's sequence. Up to it the
changelog and the ledger agree, so a recount to that sequence gives the same numbers while workers go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import orjson

from app.core.memory.statistics import KEY_PREFIX, NOTHING, Statistics, Whose

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.memory.recount import Counts

G = TypeVar("G")


class LiveCounts:
    """Fed with a changelog's records, each partition's in order."""

    def __init__(self) -> None:
        self.counts: Counts = {}
        self.sequences: dict[int, int] = {}
        self._uncommitted: Counts = {}

    def take(self, partition: int, key: bytes, value: bytes | None) -> None:
        """An entry of the table; those that are no statistics are left out."""
        if key.startswith(KEY_PREFIX) and value is not None:
            self._uncommitted[partition, Whose.of_key(key)] = Statistics(*orjson.loads(value))

    def committed(self, partition: int, sequence: int) -> None:
        """The partition's own record: what came before it is whole, up to this sequence of its ledger."""
        whole = {place: one for place, one in self._uncommitted.items() if place[0] == partition}
        self.counts |= whole
        for place in whole:
            del self._uncommitted[place]
        self.sequences[partition] = sequence


def summed(counts: Counts, group: Callable[[Whose], G]) -> dict[G, Statistics]:
    """The statistics of every group, over all partitions."""
    found: dict[G, Statistics] = {}
    for (_, whose), statistics in sorted(counts.items()):
        name = group(whose)
        found[name] = found.get(name, NOTHING).plus(statistics)
    return found
