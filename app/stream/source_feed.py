"""Every memory source's history, as the owners publish them, for the decisions of this worker.

The newest record under a key counts. It may lag behind the owners' own; a decision records what it saw.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from aiokafka.errors import KafkaError

from app.core.memory.history import History, SourceName
from topics.reading import Unreadable, read
from topics.records import SourceHistory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger(__name__)


class HistoryReader(Protocol):
    """The topic of histories, read on from where the last call stopped."""

    def to_end(self) -> AsyncIterator[list[bytes]]:
        """The values of every record up to the end that the topic has now, in batches that may be taken
        between two looks at the loop. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""


class SourceFeed:
    """`histories` is one mapping that changes in place: whoever decides reads it once."""

    def __init__(self, reader: HistoryReader, interval_s: float) -> None:
        self.histories: dict[SourceName, History] = {}
        self._reader = reader
        self._interval_s = interval_s
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
                log.warning("the source histories cannot be read now: %s", away)

    async def close(self) -> None:
        """Give up the connection."""
        async with self._turn:
            await self._reader.close()

    def _take(self, value: bytes) -> None:
        record = read(SourceHistory, value)
        if isinstance(record, Unreadable):
            log.error("a source history cannot be read: %s at %s", record.code, record.path)
            return
        name = SourceName(record.tenant_id, record.source_id)
        known = self.histories.get(name)
        if known is None or known.revision < record.revision:
            self.histories[name] = History(record.type, record.positive, record.negative, record.revision)
