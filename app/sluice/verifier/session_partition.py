"""In which partition a session lies: Kafka's default partitioner, murmur2 of the key."""

from __future__ import annotations

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_ALL = 0xFFFFFFFF


def compute_partition(key: bytes, partitions: int) -> int:
    """The partition of a key among so many."""
    return (_compute_murmur2(key) & 0x7FFFFFFF) % partitions


def _compute_murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bits, as Kafka's clients compute it."""
    value = _SEED ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _ALL
        word = (word ^ word >> 24) * _FACTOR & _ALL
        value = (value * _FACTOR & _ALL) ^ word
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _FACTOR & _ALL
    value = (value ^ value >> 13) * _FACTOR & _ALL
    return value ^ value >> 15
