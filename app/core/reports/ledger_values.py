"""Values of ledger topics, handed on by their schema: what the report, the criteria and the alarms read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from app.core.reports.report_tally import NotADecisionError

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
        """As JSON: {source, environments, heads: [{partition, sequence, event_hash}]}."""
        return {
            "source": self.source,
            "environments": list(self.environments),
            "heads": [one._asdict() for one in self.heads],
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
