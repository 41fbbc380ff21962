"""What a session remembers of a retrieval: which items were decided on, and the flags that were raised."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK_DIGITS = 10


class RecentRetrieval(NamedTuple):
    """A retrieval inside its window, by its request's id.

    `items` are the short digests of the ids of its decided items, one behind the other (`item_mark`); `flags`
    maps an item's kept id to the flags that it was let through with.
    """

    tier: str
    items: str
    at_ms: int
    flags: dict[str, list[str]]

    @property
    def size(self) -> int:
        """How many items."""
        return len(self.items) // MARK_DIGITS

    def joined(self, later: RecentRetrieval) -> RecentRetrieval:
        """With a later one under the same id: nothing that was read is forgotten by asking again."""
        own = [self.items[at : at + MARK_DIGITS] for at in range(0, len(self.items), MARK_DIGITS)]
        new = [later.items[at : at + MARK_DIGITS] for at in range(0, len(later.items), MARK_DIGITS)]
        flags = dict(self.flags)
        for item, raised in later.flags.items():
            add_flags(flags, item, raised)
        return later._replace(items="".join(dict.fromkeys([*own, *new])), flags=flags)


def add_flags(flags: dict[str, list[str]], item: str, raised: Iterable[str]) -> None:
    """Add to the flags of an item, each once: what was read twice has those of both times."""
    known = flags.get(item, [])
    flags[item] = sorted({*known, *raised})


def item_mark(item_id: str) -> str:
    """An item's id as sessions keep it: 40 bits of its digest. Two of a thousand items that a store reports
    are taken for each other once in a million requests."""
    return sha256(item_id.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_DIGITS]


def has_mark(items: str, item_id: str) -> bool:
    """Whether an item is among those of a RecentRetrieval."""
    mark = item_mark(item_id)
    at = items.find(mark)
    while at > 0 and at % MARK_DIGITS:
        at = items.find(mark, at + 1)
    return at >= 0
