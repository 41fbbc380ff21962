"""The state of a partition that belongs to no session, in the sessions' changelog under a reserved key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import orjson

from app.core.foundation.chain import GENESIS
from app.core.reports.memory_recount import LiveCounts
from app.stream.engine.crash_guard import Marker

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping

RESERVED_KEY = b"p:"


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Ledger head, positions and crash marker; written in every transaction of the partition.

    `positions`: per topic (base name) the next offset and the offsets below it that are not decided.
    `controls`: per control topic the offset below which the ledger has every refusal of a record.
    """

    sequence: int = 0
    head: str = GENESIS
    positions: Mapping[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    marker: Marker = field(default_factory=Marker)
    controls: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        return orjson.dumps(
            {
                "sequence": self.sequence,
                "head": self.head,
                "positions": self.positions,
                "marker": self.marker.as_json(),
                "controls": self.controls,
            }
        )

    @classmethod
    def decode(cls, value: bytes | None) -> PartitionRecord:
        """The record as written; for None the record of a partition that never had an owner."""
        if value is None:
            return cls()
        tree = orjson.loads(value)
        positions = {
            topic: (offset, tuple(pending)) for topic, (offset, pending) in tree["positions"].items()
        }
        marker = Marker.from_json(tree["marker"])
        return cls(tree["sequence"], tree["head"], positions, marker, tree.get("controls", {}))


class ChangelogRecord(Protocol):
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


async def live_statistics(changelog: AsyncIterable[ChangelogRecord]) -> LiveCounts:
    """The workers' counts, of each partition as of its last transaction."""
    live = LiveCounts()
    async for entry in changelog:
        if entry.key == RESERVED_KEY:
            live.committed(entry.partition, PartitionRecord.decode(entry.value).sequence)
        else:
            live.take(entry.partition, entry.key or b"", entry.value)
    return live
