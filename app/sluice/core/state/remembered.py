"""A session's memory of one agent's inputs: the ids within their window, and the result of each.

This module limits the bytes of all of it: ids are kept short, and counts have a limited number of
digits (sluice_topics/records/base.py). The sizes are those of the longest stored form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int
from sluice.core.state.recent_retrieval import RecentRetrieval

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
GATE_BYTES = 96
"""The gate's name and the time, which are kept with the value that a gate remembers."""
Table = Literal["recent", "writes", "sources", "retrievals", "flagged", "gates", "read"]
TIMED: tuple[Table, ...] = ("recent", "writes", "retrievals", "flagged")
"""Tables whose entries leave the window, the oldest first; an entry's time is in third place."""
UNTIMED: tuple[Table, ...] = ("sources", "gates", "read")
_BYTES: Mapping[str, int] = {
    "recent": ACTION_BYTES,
    "writes": WRITE_BYTES,
    "sources": SOURCE_BYTES,
    "flagged": FLAGGED_BYTES,
    "read": READ_BYTES,
}


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


def recent_action(stored: Any) -> RecentAction:
    digest, offset, at_ms, mark, counted, carried, shared, peak, most, *settled = stored
    return RecentAction(
        digest, offset, at_ms, mark, int(counted), carried, shared, int(peak), int(most), *settled
    )


@lru_cache(maxsize=REMEMBERED_IDS)
def kept_id(an_id: str) -> str:
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
    return GATE_BYTES + int(stored[2]) if table == "gates" else _BYTES[table]


@dataclass(slots=True)
class Remembered:
    """The memories of one agent. Ids are `kept_id`s. `recent` maps action id to a stored RecentAction,
    oldest first, `writes` write id to a stored RecentWrite, `sources` a memory source's id to its type and
    last write (ms), `retrievals` a request's id to a stored RecentRetrieval, `flagged` an item's id to a
    stored Flagged, `gates` a gate's name to what it remembers: until_ms, the value and its bytes, `read` a
    kind of untrusted content to a stored ReadSoFar.

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
        known = entries.get(name)
        if known is not None:
            self.size -= entry_bytes(table, known)
        entries[name] = stored
        self.size += entry_bytes(table, stored)
        if table == "recent":
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
        stored = self.recent.get(kept_id(action_id))
        return None if stored is None else recent_action(stored)

    def write(self, write_id: str) -> RecentWrite | None:
        """What is remembered of a write's id."""
        stored = self.writes.get(kept_id(write_id))
        return None if stored is None else RecentWrite(*stored)

    def retrieval(self, request_id: str) -> RecentRetrieval | None:
        """What is remembered of a retrieval."""
        stored = self.retrievals.get(kept_id(request_id))
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
        sources and of untrusted content has no time, and what gates remember has a later one of its own."""
        timed = False
        for kept in (self.recent, self.writes, self.retrievals, self.flagged):
            if kept:
                if kept[next(reversed(kept))][2] > cut_ms:
                    return False
                timed = True
        for until_ms, *_ in self.gates.values():
            if until_ms > cut_ms:
                return False
        return timed or bool(self.gates) or not (self.sources or self.read)

    def lasting(self) -> Remembered | None:
        """What is left of it when everything with a time is over."""
        return Remembered(sources=self.sources, read=self.read) if self.sources or self.read else None

    def names(self, tables: Iterable[Table]) -> Iterator[tuple[Table, str]]:
        """The entries of some tables."""
        return ((table, name) for table in tables for name in getattr(self, table))
