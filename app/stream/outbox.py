"""Staged records of one partition, numbered and chained in one go when their batch is taken.

The order of staging is the order of the chain. A record that could not be linked would stop the worker; what
an input can put into one has been canonicalised before, for its decision's rerun hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from topics.headers import Headers, output_headers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.decision import OutRecord
    from app.core.ledger.chain import Chain


@dataclass(frozen=True, slots=True)
class Output:
    """A record ready to be produced; `topic` is its base name."""

    topic: str
    key: bytes
    value: bytes
    headers: Headers


class Outbox:
    """`source` is the CloudEvents source of everything that this worker writes."""

    def __init__(self, chain: Chain, source: str) -> None:
        self._chain = chain
        self._source = source
        self._staged: list[tuple[OutRecord, str | None]] = []

    def add(self, records: Iterable[OutRecord], traceparent: str | None) -> None:
        """Stage the records of one decision; `traceparent` is the input's."""
        for record in records:
            self._staged.append((record, traceparent))

    def take(self) -> list[Output]:
        """Link what is staged. Raises CanonicalError."""
        staged, self._staged = self._staged, []
        values = [self._chain.link(record.body) for record, _ in staged]
        return [
            Output(
                record.topic,
                record.subject.encode(),
                value,
                output_headers(record.body, record.kind, self._source, traceparent),
            )
            for (record, traceparent), value in zip(staged, values, strict=True)
        ]
