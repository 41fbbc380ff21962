"""A compacted topic that every worker reads: up to its end before the first decision, on from there."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from aiokafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

log = logging.getLogger(__name__)


class CompactedReader(Protocol):
    """One compacted topic, read on from where the last call stopped."""

    def to_end(self) -> AsyncIterator[list[bytes]]:
        """The values of every record up to the end that the topic has now, in batches that may be taken
        between two looks at the loop. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""


class CompactedFeed:
    """Hands every value to `take`, in its order. `what`: the records, for the log."""

    def __init__(
        self, reader: CompactedReader, interval_s: float, what: str, take: Callable[[bytes], None]
    ) -> None:
        self._reader = reader
        self._interval_s = interval_s
        self._what = what
        self._take = take
        self._turn = asyncio.Lock()

    async def catch_up(self) -> None:
        """Read to the topic's end as of now. Raises KafkaError."""
        async with self._turn:
            async for batch in self._reader.to_end():
                for value in batch:
                    self._take(value)
                await asyncio.sleep(0)

    async def follow(self) -> None:
        """Catch up again and again, until cancelled. A broker that is away is asked again."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.catch_up()
            except KafkaError as away:
                log.warning("the %s cannot be read now: %s", self._what, away)

    async def close(self) -> None:
        """Give up the connection."""
        async with self._turn:
            await self._reader.close()
