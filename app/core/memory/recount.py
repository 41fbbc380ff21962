"""The quarantine and its statistics as the ledger alone tells them: the auditor's side of the book.

It shares nothing with app/core/memory/book.py but the statistics' shape: what the partitions count and what a
recount finds are two ways to the same numbers (seed 003, "Statistics").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from app.core.memory.statistics import NOTHING, Statistics, Whose
from app.core.session import UNREGISTERED
from topics.records import (
    MemoryDecision,
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Ending = QuarantineApproved | QuarantineRejected | QuarantineExpired | QuarantineEvicted
Event = QuarantineEntered | Ending
Counts = dict[tuple[int, Whose], Statistics]
"""By partition, since each counts for itself, and by whose they are."""

T = TypeVar("T")

_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="schema_name")])
_DECISION = TypeAdapter(MemoryDecision)


class NotInLedgerError(ValueError):
    """A value is no record of the topic that it was read from; the message says where it fails."""


def event_in(value: bytes | None) -> Event:
    """The record in a value of gate.quarantine. Raises NotInLedgerError."""
    return _read(_EVENT, value)


def decision_in(value: bytes | None) -> MemoryDecision:
    """The record in a value of gate.memory.decisions. Raises NotInLedgerError."""
    return _read(_DECISION, value)


class Waiting:
    """What is held: entered and not ended. Each partition's events are taken in their order."""

    def __init__(self) -> None:
        self._entered: dict[str, QuarantineEntered] = {}

    def take(self, event: Event) -> None:
        """One event more."""
        if isinstance(event, QuarantineEntered):
            self._entered[event.memory_id] = event
        else:
            self._entered.pop(event.memory_id, None)

    def __iter__(self) -> Iterator[QuarantineEntered]:
        """The oldest first, by the time of their inputs."""
        return iter(sorted(self._entered.values(), key=lambda one: (one.entered_at, one.sequence)))


class Recount:
    """Statistics counted anew, up to a sequence number in each partition.

    `until`: by partition, the last sequence that counts; records of other partitions count not at all.
    """

    def __init__(self, until: Mapping[int, int]) -> None:
        self._until = until
        self.counts: Counts = {}

    def decision(self, one: MemoryDecision) -> None:
        """A repeat counts nowhere. Whom nobody registered counts together."""
        if one.duplicate_of is None and self._counts(one):
            known = one.tenant_id is not None
            whose = Whose(one.tenant_id or UNREGISTERED, (one.agent_id or "") if known else "")
            self._put(one.partition, whose, self._of(one.partition, whose).decided(one.action))

    def event(self, one: Event) -> None:
        """What entered and did not leave is in quarantine."""
        if self._counts(one):
            whose = Whose(one.tenant_id, one.agent_id)
            by = 1 if isinstance(one, QuarantineEntered) else -1
            self._put(one.partition, whose, self._of(one.partition, whose).resized(by))

    def _counts(self, one: MemoryDecision | Event) -> bool:
        return one.sequence <= self._until.get(one.partition, 0)

    def _of(self, partition: int, whose: Whose) -> Statistics:
        return self.counts.get((partition, whose), NOTHING)

    def _put(self, partition: int, whose: Whose, statistics: Statistics) -> None:
        self.counts[partition, whose] = statistics


class Difference(NamedTuple):
    """Where the workers' count is another than the ledger's."""

    partition: int
    whose: Whose
    live: Statistics
    recounted: Statistics


def differences(live: Counts, recounted: Counts) -> list[Difference]:
    """Everything that is not equal; what one side lacks is nothing."""
    pairs = [
        Difference(*place, live.get(place, NOTHING), recounted.get(place, NOTHING))
        for place in sorted(live.keys() | recounted.keys())
    ]
    return [one for one in pairs if one.live != one.recounted]


def _read(kind: TypeAdapter[T], value: bytes | None) -> T:
    try:
        return kind.validate_json(value or b"")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise NotInLedgerError(f"{place}: {first['msg']}" if place else first["msg"]) from None
