"""What is to be resolved, what is being resolved, and how far the wanted references are worked off.

A reference that is wanted again while it is in work is resolved once, and every place that wanted it is done
when its record is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.stream.provenance.provenance_turns import Reference, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.stream.provenance.provenance_turns import Shares


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


class Work:
    """Nothing is awaited here."""

    def __init__(self, shares: Shares) -> None:
        self._places = Places()
        self._turns = Turns(shares)
        self._wanted_at: dict[Reference, list[Place]] = {}

    @property
    def room(self) -> bool:
        """Whether more may be asked for."""
        return self._turns.room

    def enter(self, place: Place, reference: Reference) -> bool:
        """Have it resolved; False where too many of its like wait: it is left until it is wanted again."""
        self._places.enter(place)
        wanted_at = self._wanted_at.get(reference)
        if wanted_at is not None:
            wanted_at.append(place)
        elif self._turns.enter(host_name(reference.uri), reference):
            self._wanted_at[reference] = [place]
        else:
            self._places.done([place])
            return False
        return True

    def skip(self, place: Place) -> None:
        """There is nothing to do for this record."""
        self._places.enter(place)
        self._places.done([place])

    def take(self) -> Reference | None:
        """The next to be resolved, None while every share is taken or nothing waits."""
        taken = self._turns.take()
        return None if taken is None else taken[1]

    def ended(self, reference: Reference) -> None:
        """It is resolved, or it cannot be: another may begin."""
        self._turns.ended(host_name(reference.uri), reference.tenant)

    def recorded(self, reference: Reference) -> None:
        """Its record is published."""
        self._places.done(self._wanted_at.pop(reference))

    def forget(self, partitions: Iterable[int]) -> None:
        """Others work these partitions off now; what is in work ends all the same."""
        self._places.forget(partitions)

    def positions(self) -> dict[int, int]:
        """By partition, where whoever comes next begins."""
        return self._places.positions()


def host_name(uri: str) -> str:
    """Whose server is asked, whatever the scheme and the port: in lower case; empty where there is none."""
    try:
        return (urlsplit(uri).hostname or "").removesuffix(".")
    except ValueError:
        return ""
