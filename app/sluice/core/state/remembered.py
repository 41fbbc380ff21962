"""The entries of a session's memory of an agent's inputs: the ids within their window, and the result of
each, in the form in which states keep them.

This module limits the bytes of all of it: ids are kept short, and counts have a limited number of
digits (sluice_topics/records/base.py). The sizes are those of the longest stored form.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int
from sluice.core.state.seen_values import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def encode(self) -> tuple[Any, ...]:
        """The form in states: counts as records write them, and of the fields after `most` only those that
        are true."""
        action = self
        if max(self.counted, self.peak, self.most) > MAX_SAFE_INTEGER:
            counts = wire_int(self.counted), wire_int(self.peak), wire_int(self.most)
            action = self._replace(counted=counts[0], peak=counts[1], most=counts[2])  # type: ignore[arg-type]
        return tuple(action) if self.signed or self.disputed else action[:UNSETTLED]


UNSETTLED = RecentAction._fields.index("signed")


def is_settled(stored: Any) -> bool:
    """Whether a stored RecentAction says that a signed outcome has settled the action."""
    return len(stored) > UNSETTLED and bool(stored[UNSETTLED])


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

    def encode(self) -> tuple[int, Any, int]:
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
