"""A session's memory of one agent's inputs: the ids within their window, and the result of each. And how it
is stored: in pages of a few entries, so that an input writes what it changed.

This module limits the bytes of all of it: ids are kept short, and counts have a limited number of
digits (sluice_topics/records/base.py). The sizes are those of the longest stored form.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int, wire_safe
from sluice.core.state.recent_retrieval import RecentRetrieval
from sluice.core.state.seen_values import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LONGEST_KEPT_ID = 64
REMEMBERED_IDS = 1 << 14
"""An input needs the kept form of its ids several times."""
AGENT_BYTES = 112
ACTION_BYTES = 384
WRITE_BYTES = 224
SOURCE_BYTES = 104
RETRIEVAL_BYTES = 136
FLAGGED_BYTES = 304
READ_BYTES = 128
LESSON_BYTES, PRINT_BYTES = 352, 36
ANSWER_BYTES = 64
"""Of a lesson, where a person's answer makes values known: its end and the roles."""
_LESSON_ALONE = 3
GATE_BYTES = 96
"""The gate's name and the time, which are kept with the value that a gate remembers."""
Table = Literal["recent", "writes", "sources", "retrievals", "flagged", "gates", "read", "values", "lessons"]
TIMED: tuple[Table, ...] = ("recent", "writes", "retrievals", "flagged", "lessons")
"""Tables whose entries leave the window, the oldest first; an entry's time is in third place."""
UNTIMED: tuple[Table, ...] = ("sources", "gates", "read", "values")
FIXED_BYTES: Mapping[str, int] = {
    "recent": ACTION_BYTES,
    "writes": WRITE_BYTES,
    "sources": SOURCE_BYTES,
    "flagged": FLAGGED_BYTES,
    "read": READ_BYTES,
}
"""Bytes that an entry of these tables takes at most, whatever it holds."""


class RecentAction(NamedTuple):
    """An action id within its window.

    `digest` is the hex digest of the raw input, `offset` the first input's, `at_ms` broker time, `mark` the
    published outcome and the shadow outcome ("ALLOW", "ALLOW/BLOCK"). `counted`: the rows that the totals
    include for it. `carried`: how many carried-out actions have the id (0: it was denied; 2: a conflicting
    one in standard mode was carried out too). `shared`: several actions have the id, so no outcome lowers
    `counted`. `peak`: the largest outcome. `most`: the rows to which an unsigned outcome may raise
    `counted`. `signed`: a signed outcome has settled it. `disputed`: an unsigned
    outcome claimed more than `most`, and no signed one has come since.
    """

    digest: str
    offset: int
    at_ms: int
    mark: str
    counted: int
    carried: int
    shared: bool
    peak: int
    most: int
    signed: bool = False
    disputed: bool = False

    def stored(self) -> tuple[Any, ...]:
        """The form in states: counts as records write them, and of the fields after `most` only those that
        are true."""
        kept = self
        if max(self.counted, self.peak, self.most) > MAX_SAFE_INTEGER:
            counts = wire_int(self.counted), wire_int(self.peak), wire_int(self.most)
            kept = self._replace(counted=counts[0], peak=counts[1], most=counts[2])  # type: ignore[arg-type]
        return tuple(kept) if self.signed or self.disputed else kept[:_UNSETTLED]


_UNSETTLED = RecentAction._fields.index("signed")


def is_settled(stored: Any) -> bool:
    """Whether a stored RecentAction says that a signed outcome has settled the action."""
    return len(stored) > _UNSETTLED and bool(stored[_UNSETTLED])


class RecentWrite(NamedTuple):
    """A memory write's id within its window.

    `digest` is the hex digest of the raw input, `offset` the input's; `action` was published, `shadow` is the
    action that shadow mode hid; `trust` is the maximum for memories derived from this one.
    """

    digest: str
    offset: int
    at_ms: int
    action: str
    shadow: str | None
    trust: float | None


def make_known_action(digest: str, offset: int, mark: str) -> RecentAction:
    """A remembered action as far as a verdict says what was known of its id."""
    return RecentAction(digest, offset, 0, mark, 0, 0, shared=False, peak=0, most=0)


def read_recent_action(stored: Any) -> RecentAction:
    digest, offset, at_ms, mark, counted, carried, shared, peak, most, *settled = stored
    return RecentAction(
        digest, offset, at_ms, mark, int(counted), carried, shared, int(peak), int(most), *settled
    )


@lru_cache(maxsize=REMEMBERED_IDS)
def shorten_id(an_id: str) -> str:
    """An id as states keep it: itself, or "#" and its digest if the id is long or longer in JSON.

    Ids come from outside: 1024 ids of 256 control characters would exceed the size of a record.
    """
    plain = len(an_id) <= LONGEST_KEPT_ID and an_id.isascii() and an_id.isprintable()
    if plain and an_id[0] != "#" and '"' not in an_id and "\\" not in an_id:
        return an_id
    return "#" + sha256(an_id.encode("utf-8", "surrogatepass")).hexdigest()


class GateMemory(NamedTuple):
    """What a gate remembers of an agent: a JSON value, and when it no longer matters, ms of broker time."""

    until_ms: int
    value: Any

    def stored(self) -> tuple[int, Any, int]:
        """The form in states: with the bytes that the value takes."""
        return self.until_ms, self.value, len(orjson.dumps(self.value))


def entry_bytes(table: Table, stored: Any) -> int:
    """Bytes that an entry takes at most in the stored form."""
    if table == "retrievals":
        return RETRIEVAL_BYTES + len(stored[1])
    if table == "lessons":
        prints = sum(map(len, stored[1].values()))
        if len(stored) > _LESSON_ALONE:
            return LESSON_BYTES + ANSWER_BYTES + PRINT_BYTES * (prints + sum(map(len, stored[3].values())))
        return LESSON_BYTES + PRINT_BYTES * prints
    if table == "values":
        return ENTRY_BYTES + len(stored[4])
    return GATE_BYTES + int(stored[2]) if table == "gates" else FIXED_BYTES[table]


@dataclass(slots=True)
class Remembered:
    """The memories of one agent. Ids are `shorten_id`s. `recent` maps action id to a stored RecentAction,
    oldest first, `writes` write id to a stored RecentWrite, `sources` a memory source's id to its type and
    last write (ms), `retrievals` a request's id to a stored RecentRetrieval, `flagged` an item's id to a
    stored Flagged, `gates` a gate's name to what it remembers: until_ms, the value and its bytes, `read` a
    kind of untrusted content to a stored ReadSoFar, `values` an input's name to a stored SeenEntry, `lessons`
    an action's offset to a stored Lesson, which its outcome will teach.

    `size`: bytes that it takes at most in the stored form. `settled`: the names of those in `recent` that a
    signed outcome has settled.
    """

    recent: dict[str, Any] = field(default_factory=dict)
    writes: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    retrievals: dict[str, Any] = field(default_factory=dict)
    flagged: dict[str, Any] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    lessons: dict[str, Any] = field(default_factory=dict)
    size: int = field(default=AGENT_BYTES, init=False, compare=False)
    settled: dict[str, None] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        """Reckon what it was made with."""
        self.settled.update((name, None) for name, stored in self.recent.items() if is_settled(stored))
        for table in (*TIMED, *UNTIMED):
            for stored in getattr(self, table).values():
                self.size += entry_bytes(table, stored)

    def put(self, table: Table, name: str, stored: Any) -> None:
        """Keep an entry, in its place where there is one of the name."""
        entries = getattr(self, table)
        known, size = entries.get(name), FIXED_BYTES.get(table)
        if known is not None:
            self.size -= size or entry_bytes(table, known)
        entries[name] = stored
        self.size += size or entry_bytes(table, stored)
        if table == "recent" and (self.settled or len(stored) > _UNSETTLED):
            self._settle(name, stored)

    def drop(self, table: Table, name: str) -> None:
        """Forget an entry. Raises KeyError where there is none of the name."""
        self.size -= entry_bytes(table, getattr(self, table).pop(name))
        if table == "recent":
            self.settled.pop(name, None)

    def _settle(self, name: str, stored: Any) -> None:
        if is_settled(stored):
            self.settled[name] = None
        elif self.settled:
            self.settled.pop(name, None)

    def action(self, action_id: str) -> RecentAction | None:
        """What is remembered of an action id."""
        stored = self.recent.get(shorten_id(action_id))
        return None if stored is None else read_recent_action(stored)

    def write(self, write_id: str) -> RecentWrite | None:
        """What is remembered of a write's id."""
        stored = self.writes.get(shorten_id(write_id))
        return None if stored is None else RecentWrite(*stored)

    def retrieval(self, request_id: str) -> RecentRetrieval | None:
        """What is remembered of a retrieval."""
        stored = self.retrievals.get(shorten_id(request_id))
        return None if stored is None else RecentRetrieval(*stored)

    def values_of_gates(self, cut_ms: int) -> Mapping[str, Any]:
        """What gates remember, by the gate's name, without what is over."""
        return {name: kept[1] for name, kept in self.gates.items() if kept[0] > cut_ms}

    def over(self, cut_ms: int) -> Iterator[tuple[str, Table]]:
        """The names of the entries of this time or before, with their tables."""
        for table in TIMED:
            for name, stored in getattr(self, table).items():
                if stored[2] > cut_ms:
                    break
                yield name, table
        for name, kept in self.gates.items():
            if kept[0] <= cut_ms:
                yield name, "gates"

    def is_over(self, cut_ms: int) -> bool:
        """Whether there is something of this time or before, or nothing, and nothing later. What it knows of
        sources, untrusted content and values has no time; what gates remember has a later one of its own."""
        timed = False
        for kept in (self.recent, self.writes, self.retrievals, self.flagged, self.lessons):
            if kept:
                if kept[next(reversed(kept))][2] > cut_ms:
                    return False
                timed = True
        for until_ms, *_ in self.gates.values():
            if until_ms > cut_ms:
                return False
        return timed or bool(self.gates) or not (self.sources or self.read or self.values)

    def lasting(self) -> Remembered | None:
        """What is left of it when everything with a time is over."""
        if not (self.sources or self.read or self.values):
            return None
        return Remembered(sources=self.sources, read=self.read, values=self.values)

    def names(self, tables: Iterable[Table]) -> Iterator[tuple[Table, str]]:
        """The entries of some tables."""
        return ((table, name) for table in tables for name in getattr(self, table))


PAGE = 4
"""Slots of a page: what an input writes is at most this many entries for each page that it changes."""
PLACES = (
    "recent",
    "writes",
    "sources",
    "retrievals",
    "flagged",
    "gates",
    "read",
    "disputed",
    "early",
    "values",
    "lessons",
)
"""The tables by the number under which an entry names its own."""


EntryName = tuple[str, str, str, str]
"""An entry's tenant, agent, table and name. Tenant and agent are "" for outcomes that wait, the agent for
disputes."""


class Pages:
    """The entries of one session by slot. `count`: how many pages there have been.

    Each entry has a slot, and `PAGE` slots are a page. A change marks its page, and only marked pages are
    written again: a page takes as many bytes in a large session as in a small one. A slot that is free is
    taken again, so a session that forgets as much as it learns stays as long as it is. Each entry carries its
    order, so that the tables can be built again with the oldest first.
    """

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
            if self._free:
                slot = heapq.heappop(self._free)
            else:
                slot = len(self._slots)
                self._slots.append(None)
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
