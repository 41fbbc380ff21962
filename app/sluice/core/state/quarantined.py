"""A memory in quarantine as the state keeps it: digest and coordinates, not content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.clock import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_PREFIX = b"q:"


class QuarantinedMemory(NamedTuple):
    """A held memory. `input_digest` covers the bytes at topic, partition and offset; `threshold` is the write
    threshold of its decision. Times are broker times of the input, ms; they stay the same when another worker
    owns the partition.
    """

    memory_id: str
    write_id: str
    agent_id: str
    session_id: str
    tenant: str
    source_id: str
    source_type: str
    content_digest: str
    input_digest: str
    topic: str
    partition: int
    offset: int
    trust: float
    threshold: float
    entered_ms: int
    expires_ms: int

    @property
    def name(self) -> str:
        """Its id among those that wait."""
        return self.memory_id

    @property
    def key(self) -> bytes:
        """In the table."""
        return KEY_PREFIX + self.memory_id.encode()

    @property
    def due_ms(self) -> int:
        """When time does something to it."""
        return self.expires_ms

    def encode(self) -> bytes:
        """The form in the table."""
        return orjson.dumps(list(self))

    @classmethod
    def decode(cls, stored: bytes) -> QuarantinedMemory:
        """What `encode` wrote."""
        return cls(*orjson.loads(stored))

    def fields(self) -> dict[str, Any]:
        """The fields that every ledger record about it has."""
        return {
            "memory_id": self.memory_id,
            "write_id": self.write_id,
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "tenant_id": self.tenant,
            "source_id": self.source_id,
            "source_type": self.source_type,
            "content_digest": self.content_digest,
            "held": f"{self.topic}:{self.partition}:{self.offset}",
            "trust": self.trust,
            "entered_at": rfc3339(self.entered_ms),
            "expires_at": rfc3339(self.expires_ms),
        }


def read_quarantined(table: Mapping[bytes, bytes]) -> list[QuarantinedMemory]:
    """Every held memory of a partition's table."""
    return [QuarantinedMemory.decode(value) for key, value in table.items() if key.startswith(KEY_PREFIX)]
