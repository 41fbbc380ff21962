"""Records of the memory gate as they lie in the ledger, read strictly: decisions, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from topics.records import (
    MemoryDecision,
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Ending = QuarantineApproved | QuarantineRejected | QuarantineExpired | QuarantineEvicted
Event = QuarantineEntered | Ending
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


def _read(kind: TypeAdapter[T], value: bytes | None) -> T:
    try:
        return kind.validate_json(value or b"")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise NotInLedgerError(f"{place}: {first['msg']}" if place else first["msg"]) from None


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
