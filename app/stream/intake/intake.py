"""Which offsets of one input topic-partition are done: all below `next` except the pending ones."""

from __future__ import annotations

from app.stream.process import Explained


class OffsetGap(Explained):
    """The broker's offsets are contiguous here and one did not arrive: an input would be lost."""


class Intake:
    """Offsets of one topic in one partition. Pure; `next` and `pending` are what a new owner resumes from.

    `pending` holds offsets below `next` that are not decided yet, ascending: at takeover what the previous
    owner left open, afterwards whatever waits for a slow answer.
    """

    __slots__ = ("_owed", "_seen", "gaps", "halt_on_gap", "next", "pending", "topic")

    def __init__(
        self, topic: str, next_offset: int = 0, pending: tuple[int, ...] = (), *, halt_on_gap: bool = False
    ) -> None:
        self.topic = topic
        self.next = next_offset
        self.pending: dict[int, None] = dict.fromkeys(pending)
        self._owed = set(pending)
        self._seen: int | None = None
        self.halt_on_gap = halt_on_gap
        self.gaps = 0

    @property
    def resume_at(self) -> int:
        """The offset to commit for the group: the first that is not done."""
        return next(iter(self.pending)) if self.pending else self.next

    def passed(self, read: int | None) -> int:
        """The offset below which nothing is left to decide. `read`: how far the consumer has read and handed
        over, None if that is not known; what it did not hand over was a marker, rolled back or deleted."""
        return self.resume_at if read is None or self.deciding else max(self.resume_at, read)

    @property
    def deciding(self) -> bool:
        """Whether something that was delivered is not decided yet; it will be, however long that takes."""
        return len(self.pending) > len(self._owed)

    def admit(self, offset: int) -> bool:
        """Whether this delivered offset is to be decided now; False for one that is done already.

        Raises OffsetGap when an offset was skipped and `halt_on_gap` says that no producer explains it.
        """
        expected = self.resume_at if self._seen is None else self._seen + 1
        if offset > expected:
            self._gap(expected, offset)
        if self._seen is None or offset > self._seen:
            self._seen = offset
        if offset < self.next:
            if offset not in self._owed:
                return False
            self._owed.discard(offset)
            return True
        self.next = offset + 1
        self.pending[offset] = None
        return True

    def done(self, offset: int) -> None:
        """The decision on this offset is staged; it commits together with the position."""
        del self.pending[offset]

    def _gap(self, expected: int, offset: int) -> None:
        if self.halt_on_gap:
            raise OffsetGap(f"{self.topic}: expected offset {expected}, got {offset}")
        self.gaps += 1
        for lost in [o for o in self._owed if expected <= o < offset]:
            self._owed.discard(lost)
            self.pending.pop(lost, None)


class Backlog:
    """Asked again and again while something is due. An end may lie behind commit markers or records that were
    rolled back or deleted, none of which is ever delivered: where nothing moves for `patience_ms`, none is
    waited for."""

    def __init__(self, patience_ms: int) -> None:
        """The patience must be longer than a fetch takes."""
        self._patience_ms = patience_ms
        self._end: int | None = None
        self._as_of_ms = 0
        self._position = -1
        self._since_ms = 0
        self._unreachable = 0

    def decided_until(self, position: int, end: int, now_ms: int, *, deciding: bool = False) -> int | None:
        """The time up to which everything that came is decided, None while something is not.

        `position`: the first undecided offset; `end`: the topic's end, as far as it is known at `now_ms`;
        `deciding`: something that was delivered is undecided, and no patience runs.
        """
        if self._end is None:
            self._end, self._as_of_ms = end, now_ms
            self._position, self._since_ms = position, now_ms
        if self._end > max(position, self._unreachable):
            if deciding or position != self._position:
                self._position, self._since_ms = position, now_ms
            if now_ms - self._since_ms < self._patience_ms:
                return None
            self._unreachable = self._end
        self._end = None
        return self._as_of_ms
