"""A broker that forgets producer ids after seconds instead of 7 days, and how to see that it has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer

from app.adapters.kafka.kafka_read import partitions_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TRANSACTIONS = "__transaction_state"
POLL_MS = 100


def forgetful(after_ms: int) -> Mapping[str, str]:
    """Properties of a broker that forgets a transactional id `after_ms` after its last transaction."""
    return {
        "transactional.id.expiration.ms": str(after_ms),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "250",
    }


async def forgotten(bootstrap_servers: str, names: Collection[str], patience_s: float) -> None:
    """Return when the broker has removed all of these transactional ids. Raises TimeoutError, KafkaError."""
    parts = await partitions_of(bootstrap_servers, [TRANSACTIONS])
    known: dict[str, bool] = dict.fromkeys(names, True)
    async with (
        asyncio.timeout(patience_s),
        AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer,
    ):
        consumer.assign(parts)
        await consumer.seek_to_beginning(*parts)
        caught_up = False
        while not caught_up or any(known.values()):
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    name = _name(record.key)
                    if name in known:
                        known[name] = record.value is not None
            ends = await consumer.end_offsets(parts)
            caught_up = all([await consumer.position(part) >= end for part, end in ends.items()])


def _name(key: bytes) -> str:
    """The key is a version and a string, of two bytes and two bytes of length."""
    return key[4:].decode()
