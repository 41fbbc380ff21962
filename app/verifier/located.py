"""One record where it lies on the broker, as the verifier is given it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Located:
    """A Kafka record's coordinates, key and raw value. `value` is None for a tombstone; `timestamp_ms`, the
    broker's time, None where it is not known."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
