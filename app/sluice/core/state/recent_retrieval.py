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


def add_read(known: Any, times: int, last: str, at_ms: int) -> tuple[Any, ...]:
    """The stored ReadTally after what came in at a moment, `last` as states keep ids. `known`: the one
    before; None for none."""
    return tuple(ReadTally((known[0] if known else 0) + times, at_ms, last))


def read_by_all(kept: Iterable[Mapping[str, Any]]) -> Mapping[str, ReadTally]:
    """What several agents have read, together: one may act on what another has read."""
    found: dict[str, ReadTally] = {}
    for one in kept:
        for kind, stored in one.items():
            mine, known = ReadTally(*stored), found.get(kind)
            if known is not None:
                latest = max(mine, known, key=lambda read: read[1:])
                mine = latest._replace(times=mine.times + known.times)
            found[kind] = mine
    return found


def join_all(known: list[RecentRetrieval]) -> RecentRetrieval | None:
    """One memory of all requests under one id, in the order of their inputs; None for none."""
    known.sort(key=lambda one: (one.at_ms, one.offset))
    items = sum(one.size for one in known)
    return reduce(lambda one, later: one.join(later, items), known) if known else None


def flags_in(kept: Mapping[str, Any], after_ms: int) -> dict[str, list[str]]:
    """The flags of each item that was read after a moment."""
    return {item: [*stored[0]] for item, stored in kept.items() if stored[2] > after_ms}


def join_flags(
    own: Mapping[str, Any], others: Iterable[Mapping[str, Any]], after_ms: int
) -> dict[str, list[str]]:
    """The flags of each item that was read after a moment: all items of this agent, and as many items of
    other agents as one agent may have. One more item says if there were others."""
    found = flags_in(own, after_ms)
    room = MAX_FLAGGED
    for item, flags in [pair for kept in others for pair in flags_in(kept, after_ms).items()]:
        room -= item not in found
        if item in found or room >= 0:
            found[item] = sorted({*found.get(item, ()), *flags})
        else:
            found[FORGOTTEN] = [FORGOTTEN_FLAG]
    return found


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
