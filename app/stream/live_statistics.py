"""The memory gate's statistics out of the sessions' changelog, whose format is this package's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from app.core.memory.live_counts import LiveCounts
from app.stream.partition_record import RESERVED_KEY, PartitionRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterable


class Entry(Protocol):
    """A committed record of the changelog."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def key(self) -> bytes | None:
        """The table's key."""

    @property
    def value(self) -> bytes | None:
        """None deletes."""


async def live_statistics(changelog: AsyncIterable[Entry]) -> LiveCounts:
    """What the workers have counted, each partition as of its last transaction."""
    live = LiveCounts()
    async for entry in changelog:
        if entry.key == RESERVED_KEY:
            live.committed(entry.partition, PartitionRecord.decode(entry.value).sequence)
        else:
            live.take(entry.partition, entry.key or b"", entry.value)
    return live
