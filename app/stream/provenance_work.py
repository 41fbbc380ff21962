"""What is to be resolved, what is being resolved, and how far the wanted references are worked off.

A reference that is wanted again while it is in work is resolved once, and every place that wanted it is done
when its record is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from app.stream.provenance_places import Places
from app.stream.provenance_turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.stream.provenance_places import Place
    from app.stream.provenance_turns import Shares


class Reference(NamedTuple):
    """A tenant's; another tenant's of the same URI is another."""

    tenant: str
    uri: str


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
