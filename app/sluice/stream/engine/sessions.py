"""The sessions of one partition, encoded in the table and decoded while a batch uses them; and their store.

Faust's memory store has one dictionary and keeps the keys of lost partitions. Here each partition number
has its own dictionary, with values as on the changelog, and losing a partition drops it. Values stay encoded
(about 0.4 KB a session), so recovery copies bytes and decodes nothing.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any, Protocol

import faust
from faust.stores import memory

from sluice.core.state.session import KEY_PREFIX, SessionState, due_ms
from sluice.stream.process import service_log

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator


class Sessions:
    """State by session key. Staged changes are visible at once, also to the next input of the same batch.

    All that is written to the partition's table goes through `flush`; `bytes`: its keys and values together.
    """

    def __init__(self, table: dict[bytes, bytes], max_hot: int) -> None:
        """`max_hot`: how many sessions stay decoded after their batch, so that busy ones are not decoded
        again."""
        self._table = table
        self._touched: dict[bytes, SessionState] = {}
        self._hot: dict[bytes, SessionState] = {}
        self._max_hot = max_hot
        self.bytes = sum(len(key) + len(value) for key, value in table.items())
        self._due = [(due_ms(v), k) for k, v in table.items() if k.startswith(KEY_PREFIX)]
        heapq.heapify(self._due)

    def __len__(self) -> int:
        """Entries of the timers' queue: about one a session."""
        return len(self._due)

    def is_known(self, key: bytes) -> bool:
        return key in self._touched or key in self._table

    def load(self, key: bytes) -> SessionState:
        """The session's state, a new one if there is none."""
        decoded = self._touched.get(key) or self._hot.get(key)
        if decoded is not None:
            return decoded
        return SessionState.read(key, self._table)

    def touch(self, key: bytes, state: SessionState, queued_at: int | None) -> None:
        """Mark the state as changed. `queued_at` (ms): when the timers check it next, None if they do not."""
        self._touched[key] = state
        if (state.accounts or state.early) and (queued_at is None or state.due_ms < queued_at):
            heapq.heappush(self._due, (state.due_ms, key))

    def retry(self, key: bytes, at_ms: int) -> None:
        """Check a session again at `at_ms`."""
        heapq.heappush(self._due, (at_ms, key))

    def flush(self, others: Iterable[tuple[bytes, bytes | None]] = ()) -> list[tuple[bytes, bytes | None]]:
        """Write what changed of the touched states into the table, and then `others`, which are not sessions;
        the same entries go to the changelog (None deletes)."""
        entries: list[tuple[bytes, bytes | None]] = []
        for state in self._touched.values():
            entries += state.flush().items()
        entries += others
        table, size = self._table, self.bytes
        for key, value in entries:
            before = table.get(key)
            if before is not None:
                size -= len(key) + len(before)
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
                size += len(key) + len(value)
        self.bytes = size
        self._keep_hot()
        return entries

    def _keep_hot(self) -> None:
        hot = self._hot
        for key, state in self._touched.items():
            hot.pop(key, None)
            if state.accounts or state.early:
                hot[key] = state
        for key in list(itertools.islice(hot, max(0, len(hot) - self._max_hot))):
            del hot[key]
        self._touched = {}

    def due(self, now_ms: int, busy: Container[bytes], limit: int) -> Iterator[bytes]:
        """Up to `limit` keys whose time has come. A busy session (input in flight) comes up again later."""
        later: dict[bytes, int] = {}
        while self._due and self._due[0][0] <= now_ms and limit > 0:
            _, key = heapq.heappop(self._due)
            actual = self._due_of(key)
            if actual is None:
                continue
            if actual > now_ms or key in busy:
                later[key] = max(actual, now_ms + 1)  # entries of one session that came due together merge
                continue
            limit -= 1
            yield key
        for key, at_ms in later.items():
            heapq.heappush(self._due, (at_ms, key))

    def _due_of(self, key: bytes) -> int | None:
        touched = self._touched.get(key)
        if touched is not None:
            return None if touched.gone else touched.due_ms
        value = self._table.get(key)
        return None if value is None else due_ms(value)


class StoreEntry(Protocol):
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

    def absorb(self, number: int, records: Iterable[StoreEntry]) -> None:
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
        """Keep the owned partitions, drop the rest. There are no standbys."""
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
