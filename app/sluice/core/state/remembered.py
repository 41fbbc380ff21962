"""A session's memory of one agent's inputs: the ids within their window, and the result of each.

This module limits the bytes of all of it: ids are kept short, and counts have a limited number of
digits (sluice_topics/records/base.py). The sizes are those of the longest stored form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int
from sluice.core.state.recent_retrieval import MARK_DIGITS, RecentRetrieval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.core.foundation.limits import SessionLimits

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
NO_VALUES: Mapping[str, Any] = {}


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


@dataclass(slots=True)
class Remembered:
    """The memories of one agent. Ids are `kept_id`s. `recent` maps action id to a stored RecentAction,
    oldest first, `writes` write id to a stored RecentWrite, `sources` a memory source's id to its type and
    last write (ms), `retrievals` a request's id to a stored RecentRetrieval, `flagged` an item's id to a
    stored Flagged, `gates` a gate's name to what it remembers: until_ms, the value and its bytes, `read` a
    kind of untrusted content to a stored ReadSoFar.
    """

    recent: dict[str, Any] = field(default_factory=dict)
    writes: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    retrievals: dict[str, Any] = field(default_factory=dict)
    flagged: dict[str, Any] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)

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

    def keep_retrieval(
        self, request_id: str, retrieval: RecentRetrieval, limits: SessionLimits, fits: Callable[[int], bool]
    ) -> None:
        """Keep it together with what is kept under its id. While there is no room, the oldest ones go; if
        that is not enough, it is not kept. `fits`: whether there is room for so many bytes more."""
        known = self.retrieval(request_id)
        self.retrievals.pop(kept_id(request_id), None)
        if known is not None:
            retrieval = known.joined(retrieval, limits.max_recent_items)
        size = RETRIEVAL_BYTES + len(retrieval.items)

        def has_room() -> bool:
            few = len(self.retrievals) < limits.max_recent_retrievals
            few = few and self.items + retrieval.size <= limits.max_recent_items
            return few and fits(size)

        while self.retrievals and not has_room():
            del self.retrievals[next(iter(self.retrievals))]
        if has_room():
            self.retrievals[kept_id(request_id)] = tuple(retrieval)

    @property
    def items(self) -> int:
        """How many items its retrievals have."""
        return sum([len(stored[1]) for stored in self.retrievals.values()]) // MARK_DIGITS

    @property
    def size(self) -> int:
        """Bytes that it takes at most in the stored form."""
        return (
            AGENT_BYTES
            + ACTION_BYTES * len(self.recent)
            + WRITE_BYTES * len(self.writes)
            + SOURCE_BYTES * len(self.sources)
            + (RETRIEVAL_BYTES * len(self.retrievals) + MARK_DIGITS * self.items if self.retrievals else 0)
            + FLAGGED_BYTES * len(self.flagged)
            + (sum(GATE_BYTES + kept[2] for kept in self.gates.values()) if self.gates else 0)
            + READ_BYTES * len(self.read)
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        kept = self.recent or self.writes or self.sources or self.retrievals
        return not (kept or self.flagged or self.gates or self.read)

    def values_of_gates(self) -> Mapping[str, Any]:
        """What gates remember, by the gate's name."""
        return {name: kept[1] for name, kept in self.gates.items()} if self.gates else NO_VALUES

    def keep_for_gate(self, gate: str, kept: GateMemory | None) -> None:
        """Keep what a gate remembers in place of what it did; None: nothing."""
        self.gates.pop(gate, None)
        if kept is not None:
            self.gates[gate] = (kept.until_ms, kept.value, len(orjson.dumps(kept.value)))

    def copied(self, cut_ms: int) -> Remembered:
        """A copy without inputs of this time or before."""
        return Remembered(
            _still_known(self.recent, cut_ms) if self.recent else {},
            _still_known(self.writes, cut_ms) if self.writes else {},
            self.sources.copy(),
            _still_known(self.retrievals, cut_ms) if self.retrievals else {},
            _still_known(self.flagged, cut_ms) if self.flagged else {},
            {name: kept for name, kept in self.gates.items() if kept[0] > cut_ms} if self.gates else {},
            self.read.copy() if self.read else {},
        )

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

    def fold(self) -> None:
        """Forget the actions that a signed outcome has settled: their rows are in the totals for good."""
        self.recent = {
            name: one for name, one in self.recent.items() if len(one) <= _UNSETTLED or not one[_UNSETTLED]
        }

    def encoded(self) -> list[Any]:
        """The stored form: an agent without memories needs no bytes for them."""
        stored = [self.recent, self.writes, self.sources, self.retrievals]
        stored += [self.flagged, self.gates, self.read]
        while stored and not stored[-1]:
            stored.pop()
        return stored


def _still_known(remembered: dict[str, Any], cut_ms: int) -> dict[str, Any]:
    """A copy without entries of this time or before. The oldest entries come first; their time is in third
    place."""
    gone = 0
    for stored in remembered.values():
        if stored[2] > cut_ms:
            break
        gone += 1
    return dict(islice(remembered.items(), gone, None)) if gone else remembered.copy()
