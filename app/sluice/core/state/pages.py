"""How what a session remembers is stored: in pages of a few entries, so that an input writes what it changed.

Each entry has a slot, and `PAGE` slots are a page. A change marks its page, and only marked pages are written
again: a page takes as many bytes in a large session as in a small one. A slot that is free is taken again, so
a session that forgets as much as it learns stays as long as it is. Each entry carries its order, so that the
tables can be built again with the oldest first.
"""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.foundation.canonical import wire_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = 4
"""Slots of a page: what an input writes is at most this many entries for each page that it changes."""
PLACES = ("recent", "writes", "sources", "retrievals", "flagged", "gates", "read", "disputed", "early")
"""The tables by the number under which an entry names its own."""


EntryName = tuple[str, str, str, str]
"""An entry's tenant, agent, table and name. Tenant and agent are "" for outcomes that wait, the agent for
disputes."""


class Pages:
    """The entries of one session by slot. `count`: how many pages there have been."""

    __slots__ = ("_free", "_marked", "_next", "_slots", "_where")

    def __init__(self) -> None:
        self._slots: list[tuple[int, EntryName, Any] | None] = []
        self._where: dict[EntryName, int] = {}
        self._free: list[int] = []
        self._marked: set[int] = set()
        self._next = 0

    @property
    def count(self) -> int:
        """How many pages there are, empty ones among them."""
        return -(-len(self._slots) // PAGE)

    def put(self, name: EntryName, stored: Any) -> None:
        """Keep an entry: in its slot and order where there is one of the name, else as the newest."""
        slot = self._where.get(name)
        if slot is None:
            slot = heapq.heappop(self._free) if self._free else self._grow()
            self._where[name] = slot
            self._next += 1
            order = self._next
        else:
            order = self._slots[slot][0]  # type: ignore[index]
        self._slots[slot] = order, name, stored
        self._marked.add(slot // PAGE)

    def drop(self, name: EntryName) -> None:
        """Forget an entry. Raises KeyError where there is none of the name."""
        slot = self._where.pop(name)
        self._slots[slot] = None
        heapq.heappush(self._free, slot)
        self._marked.add(slot // PAGE)

    def _grow(self) -> int:
        self._slots.append(None)
        return len(self._slots) - 1

    def marked(self) -> list[int]:
        """The pages that changed since the last time."""
        marked, self._marked = self._marked, set()
        return sorted(marked)

    def encode(self, page: int) -> bytes | None:
        """A page as it is stored; None for an empty one."""
        agents: dict[tuple[str, str], int] = {}
        entries = []
        for slot in range(page * PAGE, min((page + 1) * PAGE, len(self._slots))):
            held = self._slots[slot]
            if held is not None:
                order, (tenant, agent, table, name), stored = held
                whose = agents.setdefault((tenant, agent), len(agents))
                entries.append([slot, order, whose, PLACES.index(table), name, stored])
        if not entries:
            return None
        value = [[*agents], entries]
        try:
            return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
        except TypeError:
            return orjson.dumps(wire_safe(value))

    def restore(self, count: int, pages: Iterable[Any]) -> list[tuple[EntryName, Any]]:
        """Take over stored pages, as JSON; their entries in their order. `count`: what it was then."""
        self._slots = [None] * (count * PAGE)
        for agents, entries in pages:
            for slot, order, whose, table, name, stored in entries:
                self._slots[slot] = order, (*agents[whose], PLACES[table], name), stored
        found = sorted((one for one in self._slots if one is not None), key=itemgetter(0))
        self._where = {one[1]: slot for slot, one in enumerate(self._slots) if one is not None}
        self._free = [slot for slot, one in enumerate(self._slots) if one is None]
        self._next = found[-1][0] if found else 0
        return [(name, stored) for _, name, stored in found]
