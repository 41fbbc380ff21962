"""Which records are still to be delivered, in which order, and up to where all are. Time is an argument.

The records of one subject are delivered in the order of the ledger, one delivery after the other; subjects
do not wait for each other. A partition counts as delivered up to its oldest record that is not: so nothing is
skipped by a restart, whatever was held up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.reports.pending_subject import ENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Part = tuple[str, int]
"""A topic's base name and a partition."""


class CommittedEvent(NamedTuple):
    """A record of the ledger at its place; `timestamp_ms` is the broker's."""

    part: Part
    offset: int
    timestamp_ms: int
    fields: dict[str, Any]


class AssignedPart(NamedTuple):
    """A partition that came to a consumer: where it begins, and `old_until`, see `DeliveryBacklog.assign`."""

    part: Part
    position: int
    old_until: int


@dataclass(eq=False, slots=True)
class Pending:
    """The records to deliver about one subject. `not_before`: in seconds, when it is tried again."""

    part: Part
    subject: str
    records: list[CommittedEvent]
    not_before: float = 0.0


@dataclass(slots=True)
class _Position:
    """`next`: the offset to be read next; `old_until`: before it, only what still waits is told."""

    next: int
    old_until: int
    subjects: dict[str, Pending] = field(default_factory=dict)

    @property
    def is_looking(self) -> bool:
        return self.next < self.old_until


class DeliveryBacklog:
    """The backlog of one consumer."""

    def __init__(self, most: int, scope_of: Callable[[Pending], str | None]) -> None:
        """`most`: subjects, after which it is full and no more should be read. `scope_of`: what a delivery
        shares with others that fail with it, such as a channel."""
        self._most = most
        self._scope_of = scope_of
        self._parts: dict[Part, _Position] = {}
        self._blocked: dict[str, float] = {}

    @property
    def is_full(self) -> bool:
        """Whether to read no further for now; partitions that are looked through first do not count."""
        return self._count() >= self._most

    @property
    def waiting(self) -> int:
        """Subjects that are still to be told."""
        return self._count()

    @property
    def is_looking(self) -> bool:
        """Whether a partition's past is still looked through."""
        return any(at.is_looking for at in self._parts.values())

    def assign(self, came: AssignedPart) -> None:
        """One partition more. What ended before `old_until` is not told: nobody was notified of it, and it is
        over."""
        self._parts[came.part] = _Position(came.position, came.old_until)

    def revoke(self, parts: Iterable[Part]) -> None:
        """Another one's partitions now."""
        for part in parts:
            self._parts.pop(part, None)

    def take(self, record: CommittedEvent, subject: str) -> None:
        """One more record to deliver."""
        at = self._parts.get(record.part)
        if at is not None:
            pending = at.subjects.setdefault(subject, Pending(record.part, subject, []))
            pending.records.append(record)

    def note_position(self, part: Part, position: int) -> None:
        """The partition was read up to this offset."""
        at = self._parts.get(part)
        if at is None:
            return
        was_looking = at.is_looking
        at.next = position
        if was_looking and not at.is_looking:
            at.subjects = {
                name: pending for name, pending in at.subjects.items() if not _is_over(pending, at.old_until)
            }

    def find_due(self, now: float) -> Pending | None:
        """The next one to deliver; None: nothing can be delivered now."""
        if self._is_blocked("", now):
            return None
        ready = (
            pending for at in self._parts.values() if not at.is_looking for pending in at.subjects.values()
        )
        return next(
            (
                pending
                for pending in ready
                if pending.not_before <= now and not self._is_blocked(self._scope_of(pending), now)
            ),
            None,
        )

    def note_delivered(self, pending: Pending, count: int) -> None:
        """The first `count` records of it are told."""
        del pending.records[:count]
        pending.not_before = 0.0
        at = self._parts.get(pending.part)
        if at is not None and not pending.records and at.subjects.get(pending.subject) is pending:
            del at.subjects[pending.subject]

    def postpone(self, pending: Pending, until: float, scope: str | None) -> None:
        """Try it again at that time, and until then nothing of the scope; "": nothing at all."""
        pending.not_before = until
        if scope is not None:
            self._blocked[scope] = until

    def list_committable(self) -> dict[Part, int]:
        """List the offset up to which each partition is delivered."""
        return {
            part: min((pending.records[0].offset for pending in at.subjects.values()), default=at.next)
            for part, at in self._parts.items()
            if not at.is_looking
        }

    def _count(self) -> int:
        return sum(len(at.subjects) for at in self._parts.values() if not at.is_looking)

    def _is_blocked(self, what: str | None, now: float) -> bool:
        return what is not None and self._blocked.get(what, 0.0) > now


def _is_over(pending: Pending, until: int) -> bool:
    return any(record.offset < until and record.fields.get("schema") in ENDS for record in pending.records)
