"""A batch of inputs of one topic-partition, and the partition's decided offsets: all below `next` except the
pending ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.stream.process import Explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.foundation.input_record import InputRecord


@dataclass(frozen=True, slots=True, eq=False)
class FetchedBatch:
    """What one fetch brought of one topic-partition: at least one input, in offset order. `generation`: the
    group's when the fetch began. `delivered` is set when the engine has taken them, or has ignored those of a
    past generation."""

    generation: int
    input_records: Sequence[InputRecord]
    delivered: asyncio.Event = field(default_factory=asyncio.Event)


class OffsetGap(Explained):
    """The broker's offsets are contiguous here, but one did not arrive: an input would be lost."""


class Intake:
    """Offsets of one topic in one partition. Pure; a new owner resumes from `next` and `pending`.

    `pending` has the offsets below `next` that are not decided yet, ascending: at takeover those that the
    previous owner left undecided, afterwards those that wait for a slow answer.
    """

    __slots__ = ("_last_offset", "_owed", "gaps", "halt_on_gap", "next", "pending", "topic")

    def __init__(
        self, topic: str, next_offset: int = 0, pending: tuple[int, ...] = (), *, halt_on_gap: bool = False
    ) -> None:
        self.topic = topic
        self.next = next_offset
        self.pending: dict[int, None] = dict.fromkeys(pending)
        self._owed = set(pending)
        self._last_offset: int | None = None
        self.halt_on_gap = halt_on_gap
        self.gaps = 0

    @property
    def resume_at(self) -> int:
        """The offset to commit for the group: the first that is not done."""
        return next(iter(self.pending)) if self.pending else self.next

    def find_passed(self, read: int | None) -> int:
        """The offset below which nothing is left to decide. `read`: the position up to which the consumer
        has read and delivered, None if unknown; offsets that it did not deliver were markers, rolled back or
        deleted."""
        return self.resume_at if read is None or self.in_flight else max(self.resume_at, read)

    @property
    def in_flight(self) -> int:
        """Delivered inputs that are not decided yet; they will be, however long that takes."""
        return len(self.pending) - len(self._owed)

    def admit(self, offset: int) -> bool:
        """Whether this delivered offset must be decided now; False if it is already decided.

        Raises OffsetGap if an offset was skipped and `halt_on_gap` is set (no producer leaves gaps).
        """
        expected = self.resume_at if self._last_offset is None else self._last_offset + 1
        if offset > expected:
            self._gap(expected, offset)
        if self._last_offset is None or offset > self._last_offset:
            self._last_offset = offset
        if offset < self.next:
            if offset not in self._owed:
                return False
            self._owed.discard(offset)
            return True
        self.next = offset + 1
        self.pending[offset] = None
        return True

    def done(self, offset: int) -> None:
        """Note that the decision on this offset is staged; it commits together with the position."""
        del self.pending[offset]

    def _gap(self, expected: int, offset: int) -> None:
        if self.halt_on_gap:
            raise OffsetGap(f"{self.topic}: expected offset {expected}, got {offset}")
        self.gaps += 1
        for lost in [o for o in self._owed if expected <= o < offset]:
            self._owed.discard(lost)
            self.pending.pop(lost, None)


class Backlog:
    """Finds the time up to which everything that arrived at a topic is decided. Asked repeatedly while
    something is due: what arrives meanwhile is waited for the next time only."""

    def __init__(self) -> None:
        self._end: int | None = None
        self._as_of_ms = 0

    def find_decided_until(self, passed: int, end: int, as_of_ms: int) -> int | None:
        """The time (ms) up to which everything that arrived is decided, None while something is not.

        `passed`: everything before this offset is decided, or will never be delivered; `end`: what the broker
        gave as the topic's end when it was asked at `as_of_ms` or later.
        """
        if self._end is None:
            self._end, self._as_of_ms = end, as_of_ms
        if self._end > passed:
            return None
        self._end = None
        return self._as_of_ms
