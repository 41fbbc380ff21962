"""How far a topic is worked off, where its records end in another order than they came in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Place = tuple[int, int]
"""Partition and offset."""


class Places:
    """By partition, the records that are not done and the end of what came."""

    def __init__(self) -> None:
        self._open: dict[int, set[int]] = {}
        self._end: dict[int, int] = {}

    def enter(self, place: Place) -> None:
        """A record came."""
        partition, offset = place
        self._open.setdefault(partition, set()).add(offset)
        self._end[partition] = max(offset + 1, self._end.get(partition, 0))

    def done(self, places: Iterable[Place]) -> None:
        """Nothing is left to do for these; of a partition that was forgotten they are nobody's business."""
        for partition, offset in places:
            self._open.get(partition, set()).discard(offset)

    def forget(self, partitions: Iterable[int]) -> None:
        """Others work these off now."""
        for partition in partitions:
            self._open.pop(partition, None)
            self._end.pop(partition, None)

    def positions(self) -> dict[int, int]:
        """By partition, the first offset that is not done: where whoever comes next begins."""
        return {partition: min(self._open[partition], default=end) for partition, end in self._end.items()}
