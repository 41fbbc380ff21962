"""The port `held_input` without a broker: memory writes that were read and wait for a reviewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.ports import PortUnavailable
from topics.catalog import MEMORY_WRITES

if TYPE_CHECKING:
    from app.core.arrival import Arrival
    from app.core.memory.book import Book


class HeldInputs:
    """Keeps the bytes of what is in a quarantine, and forgets them with it."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, int, int], bytes | None] = {}

    def note(self, arrival: Arrival, book: Book) -> None:
        """Keep a write that was just decided on; forget what `book` holds no more."""
        if arrival.topic == MEMORY_WRITES:
            self._values[(arrival.topic, arrival.partition, arrival.offset)] = arrival.value
        if len(self._values) > len(book):
            held = {(one.topic, one.partition, one.offset) for one in book.oldest(len(book))}
            self._values = {place: value for place, value in self._values.items() if place in held}

    async def ask(self, payload: object) -> object:
        """The value's bytes at `payload` {topic, partition, offset}. Raises PortUnavailable."""
        place: Any = payload
        value = self._values.get((place["topic"], place["partition"], place["offset"]))
        if value is None:
            raise PortUnavailable(f"no held memory was read at {place}")
        return value
