"""Find the input that crashes the worker, durably and without reading it.

A crash leaves the partition's record *open* (only a drained partition is closed). The next owner then tries
the inputs that may have been in flight again, in three steps, each announced in a committed marker before it
starts:

| crashes so far | what was in flight        | tried next                         |
|----------------|---------------------------|------------------------------------|
| 1              | up to `window` offsets    | in groups of `group`               |
| 2              | one group                 | one by one                         |
| 3              | one input                 | not at all: it is denied unread    |

So exactly the input that was in flight at three crashes in a row is denied, after at most three restarts.
A crash that no input caused costs about a second of smaller transactions.

The marker is a part of the partition's own record: what belongs to no session, in the sessions' changelog
under a reserved key. It goes with each batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from sluice.core.foundation.chain import GENESIS

if TYPE_CHECKING:
    from collections.abc import Mapping

CRASHES_TO_CONDEMN = 3
RESERVED_KEY = b"p:"


@dataclass(frozen=True, slots=True)
class Trial:
    """Offsets `low` to `high` (exclusive) of a topic that are tried now and were in flight at `crashes`
    crashes."""

    topic: str
    low: int
    high: int
    crashes: int

    def covers(self, topic: str, offset: int) -> bool:
        return topic == self.topic and self.low <= offset < self.high


@dataclass(frozen=True, slots=True)
class Marker:
    """The part of a partition's record about its owner; `encode` and `decode` convert it."""

    open: bool = False
    trial: Trial | None = None
    single_until: Mapping[str, int] = field(default_factory=dict)
    group_until: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> list[object]:
        trial = self.trial
        shown = None if trial is None else [trial.topic, trial.low, trial.high, trial.crashes]
        return [self.open, shown, dict(self.single_until), dict(self.group_until)]

    @classmethod
    def decode(cls, value: list[object]) -> Marker:
        is_open, trial, single, group = value
        shown = Trial(*trial) if isinstance(trial, list) else None
        return cls(bool(is_open), shown, single, group)  # type: ignore[arg-type]


STATE_VERSION = 1
"""Of the form of all that a partition keeps in its changelog. A release that changes the form so that earlier
ones could not read it counts it up; what has no version was written before there was one, and is 1."""


def read_state_version(value: bytes | None) -> int:
    """Of a stored PartitionRecord; None: of a partition that never had an owner."""
    return STATE_VERSION if value is None else int(orjson.loads(value).get("state", 1))


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Ledger head, positions and crash marker; written in every transaction of the partition.

    `positions`: per topic (base name) the next offset and the offsets below it that are not decided.
    `controls`: per control topic the offset below which the ledger has every refusal of a record.
    """

    sequence: int = 0
    head: str = GENESIS
    positions: Mapping[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    marker: Marker = field(default_factory=Marker)
    controls: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        return orjson.dumps(
            {
                "state": STATE_VERSION,
                "sequence": self.sequence,
                "head": self.head,
                "positions": self.positions,
                "marker": self.marker.encode(),
                "controls": self.controls,
            }
        )

    @classmethod
    def decode(cls, value: bytes | None) -> PartitionRecord:
        """The record as written; for None the record of a partition that never had an owner."""
        if value is None:
            return cls()
        tree = orjson.loads(value)
        positions = {
            topic: (offset, tuple(pending)) for topic, (offset, pending) in tree["positions"].items()
        }
        marker = Marker.decode(tree["marker"])
        return cls(tree["sequence"], tree["head"], positions, marker, tree["controls"])


class CrashGuard:
    """The steps above for one partition. Pure: from the last owner's marker it derives what to try next, and
    how."""

    def __init__(
        self, left: Marker, first: Mapping[str, int], ends: Mapping[str, int], *, window: int, group: int
    ) -> None:
        """`first`: first undecided offset per topic. `ends`: end offset per topic at takeover; no suspect can
        be after it, even if a topic was made anew."""
        self.group = group
        self.trial: Trial | None = None
        self.condemned: Trial | None = None
        self.single_until = {t: min(until, ends.get(t, until)) for t, until in left.single_until.items()}
        self.group_until = {t: min(until, ends.get(t, until)) for t, until in left.group_until.items()}
        if left.open:
            self._note_crash(left, first, ends, window)

    def _note_crash(
        self, left: Marker, first: Mapping[str, int], ends: Mapping[str, int], window: int
    ) -> None:
        if left.trial is None:
            self.group_until = {t: min(o + window, ends.get(t, o)) for t, o in first.items()}
        elif left.trial.crashes + 1 >= CRASHES_TO_CONDEMN:
            self.condemned = self.trial = left.trial  # so that the open marker says so too
        else:
            self.single_until[left.trial.topic] = left.trial.high

    def calm(self, passed: Mapping[str, int]) -> bool:
        """Whether every suspect is done. `passed`: per topic the offset below which nothing is left to
        decide, by what was decided and read. Time does not count: the first fetch may be slow."""
        return not any(
            passed[topic] < until
            for untils in (self.single_until, self.group_until)
            for topic, until in untils.items()
            if topic in passed
        )

    def size_from(self, topic: str, offset: int) -> int:
        """How many inputs may be in flight together when the next one is `offset`."""
        return 1 if self.is_single(topic, offset) else self.group

    def is_single(self, topic: str, offset: int) -> bool:
        """Whether this input was in flight at two crashes, so it is tried alone."""
        return offset < self.single_until.get(topic, 0)

    def announce(self, topic: str, low: int, high: int) -> None:
        """The next trial; commit it before its inputs start."""
        crashes = 2 if high <= self.single_until.get(topic, 0) else 1
        if self.is_condemned(topic, low):
            crashes = CRASHES_TO_CONDEMN
        self.trial = Trial(topic, low, high, crashes)

    def acquit(self) -> None:
        """The trial ended without a crash; the next marker names none."""
        self.trial = None

    def is_condemned(self, topic: str, offset: int) -> bool:
        return self.condemned is not None and self.condemned.covers(topic, offset)

    def clear(self) -> None:
        """Clear all suspects: from here on inputs run freely."""
        self.trial = None
        self.condemned = None
        self.single_until = {}
        self.group_until = {}

    def marker(self, *, open_: bool) -> Marker:
        """The marker for the partition's record in the next transaction."""
        if not open_:
            return Marker(open=False, single_until=self.single_until, group_until=self.group_until)
        return Marker(True, self.trial, self.single_until, self.group_until)
