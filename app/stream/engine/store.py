"""The sessions table's store: one dictionary per partition number, values as on the changelog.

Faust's memory store keeps one dictionary and the keys of partitions that it lost; here losing a partition
drops its dictionary. Values stay encoded (about 0.4 KB a session), so recovery copies bytes and decodes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import faust
from faust.stores import memory

from app.stream.process.log_line import service_log

if TYPE_CHECKING:
    from collections.abc import Iterable


class ChangelogRecord(Protocol):
    """The two fields of a consumed record that the store needs."""

    key: bytes
    value: bytes | None


class PartitionedStore(memory.Store):  # type: ignore[misc]
    """bytes → bytes, by partition number."""

    logger = service_log

    def __post_init__(self) -> None:
        super().__post_init__()
        self.partitions: dict[int, dict[bytes, bytes]] = {}

    def partition(self, number: int) -> dict[bytes, bytes]:
        """The live dictionary of this partition; the engine writes to it when it stages a batch."""
        return self.partitions.setdefault(number, {})

    def absorb(self, number: int, records: Iterable[ChangelogRecord]) -> None:
        """Apply changelog records in their order; a None value deletes."""
        entries = self.partition(number)
        for record in records:
            if record.value is None:
                entries.pop(record.key, None)
            else:
                entries[record.key] = record.value

    def drop(self, number: int) -> None:
        """Forget a partition that another worker owns now."""
        self.partitions.pop(number, None)

    async def on_recovery_completed(self, active_tps: set[Any], standby_tps: set[Any]) -> None:
        """Keep what is owned, drop the rest. There are no standbys."""
        del standby_tps
        owned = {tp.partition for tp in active_tps}
        for number in [n for n in self.partitions if n not in owned]:
            self.drop(number)


class SessionTable(faust.Table):  # type: ignore[misc]
    """A Faust table over a PartitionedStore; its changelog is written by the engine's transactions only."""

    logger = service_log

    def _new_store(self) -> PartitionedStore:
        return PartitionedStore(
            "memory://",
            self.app,
            self,
            table_name=self.name,
            key_type=self.key_type,
            key_serializer=self.key_serializer,
            value_serializer=self.value_serializer,
            value_type=self.value_type,
            loop=self.loop,
            options=self.options,
        )
