"""Values of ledger topics, handed on by their schema: what the report, the criteria and the alarms read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from app.core.retrieval.report_tally import NotADecisionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Sink = Callable[[Mapping[str, Any]], None]

DECISION = "sluice/quality_decision/v1"
REPORTED = "sluice/retrieval_reported/v1"
ALARM = "sluice/alarm/v1"


class LedgerValues:
    """Parses each value once and hands it to the sink of its schema; other schemas are passed over.

    Nothing is validated beyond what a sink reads: whether the ledger is whole, `sluice ledger verify` says.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        """`sinks`: by the value of `schema`; each may raise NotADecisionError."""
        self._sinks = sinks

    def take(self, value: bytes | str | None) -> None:
        """One record's value. Raises NotADecisionError."""
        try:
            event = orjson.loads(value or b"")
            sink = self._sinks.get(event["schema"])
        except (ValueError, KeyError, TypeError) as error:
            raise NotADecisionError(f"no record of the ledger: {error!r}") from None
        if sink is not None:
            sink(event)
