"""Values of ledger topics, handed on by their schema, and records of the memory gate, read strictly.

The report, the criteria for promotion and the alarms read the former, the recount of memories the latter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from sluice.core.reports.report_tally import NotADecisionError
from sluice_topics.records import (
    MemoryDecision,
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Sink = Callable[[Mapping[str, Any]], None]

DECISION = "sluice/quality_decision/v1"
REPORTED = "sluice/retrieval_reported/v1"
ALARM = "sluice/alarm/v1"
_NONE = (-1, "")


class Head(NamedTuple):
    """The last record of a partition's chain that was read."""

    partition: int
    sequence: int
    event_hash: str


class Basis(NamedTuple):
    """What a report rests on: where its records were read, what installations they name, how far they go.

    Who has the same heads has the same ledger up to them, and gets the same report.
    """

    source: str
    environments: tuple[str, ...]
    heads: tuple[Head, ...]

    def fields(self) -> dict[str, Any]:
        """The JSON: {source, environments, heads: [{partition, sequence, event_hash}]}."""
        return {
            "source": self.source,
            "environments": list(self.environments),
            "heads": [head._asdict() for head in self.heads],
        }


class LedgerValues:
    """Parses each value once and hands it to the sink of its schema; other schemas are passed over.

    Nothing is validated beyond what a sink reads: whether the ledger is whole, `sluice ledger verify` says.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        """`sinks`: by the value of `schema`; each may raise NotADecisionError."""
        self._sinks = sinks
        self._heads: dict[int, tuple[int, str]] = {}
        self._environments: set[str] = set()

    def basis(self, source: str) -> Basis:
        """What was read so far, from a source that is named so."""
        heads = (Head(partition, *self._heads[partition]) for partition in sorted(self._heads))
        return Basis(source, tuple(sorted(self._environments)), tuple(heads))

    def take(self, value: bytes | str | None) -> None:
        """One record's value. Raises NotADecisionError."""
        try:
            event = orjson.loads(value or b"")
            sink = self._sinks.get(event["schema"])
        except (ValueError, KeyError, TypeError) as error:
            raise NotADecisionError(f"no record of the ledger: {error!r}") from None
        if sink is not None:
            sink(event)
        try:
            partition, sequence = event["partition"], event["sequence"]
            if sequence > self._heads.get(partition, _NONE)[0]:
                self._heads[partition] = sequence, event["event_hash"]
            if (environment := event.get("environment")) not in self._environments and environment:
                self._environments.add(environment)
        except (KeyError, TypeError) as error:
            raise NotADecisionError(f"no record of the ledger: {error!r}") from None


Ending = QuarantineApproved | QuarantineRejected | QuarantineExpired | QuarantineEvicted
Event = QuarantineEntered | Ending
T = TypeVar("T")

_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="schema_name")])
_DECISION = TypeAdapter(MemoryDecision)


class NotInLedgerError(ValueError):
    """A value is no record of the topic that it was read from; the message says where it fails."""


def read_event(value: bytes | None) -> Event:
    """The record in a value of gate.quarantine. Raises NotInLedgerError."""
    return _read(_EVENT, value)


def read_decision(value: bytes | None) -> MemoryDecision:
    """The record in a value of gate.memory.decisions. Raises NotInLedgerError."""
    return _read(_DECISION, value)


def _read(kind: TypeAdapter[T], value: bytes | None) -> T:
    try:
        return kind.validate_json(value or b"")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        raise NotInLedgerError(f"{location}: {first['msg']}" if location else first["msg"]) from None
