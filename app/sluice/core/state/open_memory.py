"""An agent's memory as one input leaves it: what the session remembers, read through the input's own changes.

The memory itself stays as it is. Each change becomes an event, and reading finds it at once, whatever the
memory's size.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from sluice.core.state.recent_retrieval import (
    FORGOTTEN,
    FORGOTTEN_FLAG,
    MARK_DIGITS,
    MAX_FLAGGED,
    Flagged,
)
from sluice.core.state.remembered import (
    AGENT_BYTES,
    FIXED_BYTES,
    entry_bytes,
    is_settled,
)
from sluice.core.state.session import (
    EntryDropped,
    EntryKept,
    Remembered,
    Who,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.core.state.remembered import Table
    from sluice.core.state.session import SessionChange

NOTHING = Remembered()


class OpenTable:
    """One table of an agent's memory, by name and oldest first, with the changes of this input."""

    __slots__ = ("_changes", "_count", "_gone", "_new", "_owner", "_stored", "_table", "size")

    def __init__(
        self, stored: dict[str, Any], owner: Who, table: Table, changes: list[SessionChange]
    ) -> None:
        """`stored`: the table as the session has it. `changes`: where the events of this input go. `size`:
        bytes by which it has grown."""
        self._stored = stored
        self._owner = owner
        self._table = table
        self._changes = changes
        self._new: dict[str, Any] = {}
        self._gone: set[str] = set()
        self._count = len(stored)
        self.size = 0

    def get(self, name: str) -> Any:
        """The entry of this name; None for none."""
        value = self._new.get(name)
        return value if value is not None or name in self._gone else self._stored.get(name)

    def __len__(self) -> int:
        """How many entries."""
        return self._count

    def __iter__(self) -> Iterator[str]:
        """Names, the oldest first."""
        if not self._gone and not self._new:
            return iter(self._stored)
        left = (name for name in self._stored if name not in self._gone)
        return chain(left, (name for name in self._new if name not in self._stored or name in self._gone))

    def list_put(self) -> list[str]:
        """Names of the entries that this input has kept."""
        return [*self._new]

    def put(self, name: str, stored: Any) -> None:
        """Keep an entry, in its place where there is one of the name."""
        previous, size = self._new.get(name), FIXED_BYTES.get(self._table)
        if previous is None and name not in self._gone:
            previous = self._stored.get(name)
        if previous is None:
            self._count += 1
        else:
            self.size -= size or entry_bytes(self._table, previous)
        self.size += size or entry_bytes(self._table, stored)
        self._new[name] = stored
        self._changes.append(EntryKept(self._owner.tenant, self._owner.agent, self._table, name, stored))

    def drop(self, name: str) -> None:
        """Forget the entry of this name, if there is one."""
        previous = self.get(name)
        if previous is None:
            return
        self._count -= 1
        self.size -= entry_bytes(self._table, previous)
        self._new.pop(name, None)
        if name in self._stored:
            self._gone.add(name)
        self._changes.append(EntryDropped(self._owner.tenant, self._owner.agent, self._table, name))


class OpenMemory:
    """All tables of an agent's memory, without what is over."""

    __slots__ = ("_changes", "_owner", "_stored", "_tables")

    def __init__(self, stored: Remembered, owner: Who, changes: list[SessionChange], cut_ms: int) -> None:
        """`stored`: the memory as the session has it; `cut_ms`: what is of this time or before is over."""
        self._stored = stored
        self._owner = owner
        self._changes = changes
        self._tables: dict[Table, OpenTable] = {}
        for entries in (stored.recent, stored.writes, stored.retrievals, stored.flagged, stored.lessons):
            if entries and entries[next(iter(entries))][2] <= cut_ms:
                break
        else:
            if not stored.gates:
                return
        for name, table in stored.list_expired(cut_ms):
            self.table(table).drop(name)

    def table(self, table: Table) -> OpenTable:
        """One of its tables."""
        open_table = self._tables.get(table)
        if open_table is None:
            open_table = OpenTable(getattr(self._stored, table), self._owner, table, self._changes)
            self._tables[table] = open_table
        return open_table

    def count(self, table: Table) -> int:
        """How many entries a table has."""
        open_table = self._tables.get(table)
        return len(getattr(self._stored, table) if open_table is None else open_table)

    @property
    def size(self) -> int:
        """Bytes that it takes at most in the stored form."""
        return self._stored.size + sum([table.size for table in self._tables.values()])

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        size = self._stored.size
        for table in self._tables.values():
            size += table.size
        return size == AGENT_BYTES

    def marks(self) -> int:
        """How many items its retrievals have."""
        table = self.table("retrievals")
        return sum([len(table.get(name)[1]) for name in table]) // MARK_DIGITS

    def forget_settled(self) -> None:
        """Forget the actions that a signed outcome has settled: their rows are in the totals for good."""
        recent = self.table("recent")
        for name in dict.fromkeys((*self._stored.settled, *recent.list_put())):
            if is_settled(recent.get(name) or ()):
                recent.drop(name)


def add_flagged(table: OpenTable, item: str, flags: Iterable[str], at_ms: int) -> None:
    """Add an item's flags, joined with those already kept for it, after the others. Beyond the bound drop the
    oldest; an item of its own then says that some were dropped."""
    _put(table, item, flags, at_ms)
    while len(table) > MAX_FLAGGED:
        oldest = next(name for name in table if name != FORGOTTEN)
        table.drop(oldest)
        _put(table, FORGOTTEN, (FORGOTTEN_FLAG,), at_ms)


def _put(table: OpenTable, item: str, flags: Iterable[str], at_ms: int) -> None:
    previous = table.get(item)
    before, times = ((), 0) if previous is None else (previous[0], previous[1])
    table.drop(item)
    table.put(item, tuple(Flagged(tuple(sorted({*before, *flags})), times + 1, at_ms)))
