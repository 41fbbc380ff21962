"""One record as it arrived from an input topic: the raw bytes and the broker's coordinates of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any


@dataclass(frozen=True, slots=True)
class Arrival:
    """`topic` is the base name, without prefix; `timestamp_ms` is the broker's LogAppendTime, UTC.

    `waited_ms`: the time from its arrival to the start of its decision, by the worker's clock. Only an action
    that names a deadline has it: the decision records it, and a rerun takes it from there.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    traceparent: str | None = None
    waited_ms: int = 0
    _digest: str = field(init=False, default="", repr=False, compare=False)

    @property
    def digest(self) -> str:
        """ "sha256:" and the hex digest of the raw value bytes; an absent value counts as no bytes."""
        if not self._digest:
            object.__setattr__(self, "_digest", "sha256:" + sha256(self.value or b"").hexdigest())
        return self._digest

    @property
    def decision_id(self) -> str:
        """An id that is the same for every delivery of this record; ids of decisions are built from it."""
        return f"{self.topic}:{self.partition}:{self.offset}"

    def coordinates(self) -> dict[str, Any]:
        """The `input` field of a ledger record."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "digest": self.digest,
        }
