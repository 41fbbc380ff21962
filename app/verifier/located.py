"""One record where it lies on the broker, as the verifier is given it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Located:
    """A Kafka record's coordinates, key and raw value. `value` is None for a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
