"""A session's memory of its reads: the decided items, the flags that were served, and what was untrusted.

They are kept apart. The items serve the coverage of stores' reports, and the oldest are forgotten first. The
flags serve later actions. When a flag is forgotten, this is remembered too; otherwise an agent could get rid
of flags by reading more. That untrusted content came in at all is remembered as long as the session lasts:
what an agent has read, it does not forget either.
"""

from __future__ import annotations

from functools import reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MARK_DIGITS = 10
MAX_FLAGGED = 64
"""Number of a tenant's items whose flags a session keeps; each of its verdicts carries them."""
FORGOTTEN, FORGOTTEN_FLAG = "*", "forgotten"
"""The item and flag that stand for flagged items without room."""
LOST: Mapping[str, tuple[str, ...]] = {FORGOTTEN: (FORGOTTEN_FLAG,)}


class RecentRetrieval(NamedTuple):
    """A retrieval within its window, by its request's id. `items` are the short digests of the ids of its
    decided items, one after the other (`item_mark`); `offset` is the input's."""

    tier: str
    items: str
    at_ms: int
    offset: int

    @property
    def size(self) -> int:
        """How many items."""
        return len(self.items) // MARK_DIGITS

    def join(self, later: RecentRetrieval, most: int) -> RecentRetrieval:
        """This retrieval joined with a later one of the same id: the last `most` items of both."""
        marks = dict.fromkeys([*_marks(self.items), *_marks(later.items)])
        return later._replace(items="".join([*marks][-most:]))


class Flagged(NamedTuple):
    """The flags with which an item was served, in all its reads within the window. The time is in third
    place, as in every form that leaves the window."""

    flags: tuple[str, ...]
    times: int
    at_ms: int


ReadKind = Literal["external", "flagged", "held"]
"""What may have been written to sway an agent: content of strangers, items that were served with flags,
memories that the gate held or rejected for what they say."""


class ReadTally(NamedTuple):
    """What came of one kind into a session: how many times, when the last input of it came (ms), and what
    that was: an item's, a write's or a tool's id, a long one by its digest."""

    times: int
    last_at: int
    last: str


NOTHING_READ: Mapping[str, ReadTally] = {}


def add_read(previous: Any, times: int, last: str, at_ms: int) -> tuple[Any, ...]:
    """The stored ReadTally after what came in at a moment, `last` as states keep ids. `previous`: the one
    before; None for none."""
    return tuple(ReadTally((previous[0] if previous else 0) + times, at_ms, last))


def read_by_all(read_by_agent: Iterable[Mapping[str, Any]]) -> Mapping[str, ReadTally]:
    """What several agents have read, together: one may act on what another has read."""
    tallies: dict[str, ReadTally] = {}
    for table in read_by_agent:
        for kind, stored in table.items():
            mine, tally = ReadTally(*stored), tallies.get(kind)
            if tally is not None:
                latest = max(mine, tally, key=lambda read: read[1:])
                mine = latest._replace(times=mine.times + tally.times)
            tallies[kind] = mine
    return tallies


def join_all(retrievals: list[RecentRetrieval]) -> RecentRetrieval | None:
    """One memory of all requests under one id, in the order of their inputs; None for none."""
    retrievals.sort(key=lambda retrieval: (retrieval.at_ms, retrieval.offset))
    items = sum(retrieval.size for retrieval in retrievals)
    return reduce(lambda retrieval, later: retrieval.join(later, items), retrievals) if retrievals else None


def flags_in(table: Mapping[str, Any], after_ms: int) -> dict[str, list[str]]:
    """The flags of each item that was read after a moment."""
    return {item: [*stored[0]] for item, stored in table.items() if stored[2] > after_ms}


def join_flags(
    own: Mapping[str, Any], others: Iterable[Mapping[str, Any]], after_ms: int
) -> dict[str, list[str]]:
    """The flags of each item that was read after a moment: all items of this agent, and as many items of
    other agents as one agent may have. One more item says if there were others."""
    matches = flags_in(own, after_ms)
    capacity = MAX_FLAGGED
    for item, flags in [pair for flagged in others for pair in flags_in(flagged, after_ms).items()]:
        capacity -= item not in matches
        if item in matches or capacity >= 0:
            matches[item] = sorted({*matches.get(item, ()), *flags})
        else:
            matches[FORGOTTEN] = [FORGOTTEN_FLAG]
    return matches


def item_mark(item_id: str) -> str:
    """An item's id as sessions keep it: 40 bits of its digest. In a million requests with a thousand reported
    items each, two items are confused once."""
    return sha256(item_id.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_DIGITS]


def has_mark(items: str, item_id: str) -> bool:
    """Whether an item is among those of a RecentRetrieval."""
    mark = item_mark(item_id)
    at = items.find(mark)
    while at > 0 and at % MARK_DIGITS:
        at = items.find(mark, at + 1)
    return at >= 0


def _marks(items: str) -> list[str]:
    return [items[at : at + MARK_DIGITS] for at in range(0, len(items), MARK_DIGITS)]
