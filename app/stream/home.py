"""The partition that a message key belongs to: Kafka's own rule, that of the Java client's default."""

from __future__ import annotations

from aiokafka.partitioner import murmur2


def home_of(key: bytes, partitions: int) -> int:
    """0 to `partitions` - 1."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
