"""A compacted topic as a feed reads it, without a broker: one list of values at each reading."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Topic:
    """Gives one list of values at each reading; a KafkaError is raised."""

    def __init__(self, *readings: list[bytes] | Exception) -> None:
        self._readings = list(readings)
        self.read_all = asyncio.Event()
        self.closed = False

    async def to_end(self) -> AsyncIterator[list[bytes]]:
        """The next reading, a value a batch."""
        if not self._readings:
            self.read_all.set()
            return
        found = self._readings.pop(0)
        if isinstance(found, Exception):
            raise found
        for value in found:
            yield [value]

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True
