"""The ledger as it lies on a broker: every record of its topics, and what the verifier makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.adapters.kafka_read import StoredRecord, open_reader
from app.verifier.located import Located
from app.verifier.verify import Verifier
from topics.catalog import CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.verifier.findings import Report


async def read_ledger(bootstrap_servers: str, prefix: str, take: Callable[[StoredRecord], None]) -> int:
    """Hand every committed record to `take`, each partition of a topic in order; how many they were.

    Raises KafkaUnreachable and UnknownTopics.
    """
    names = [f"{prefix}{topic.name}" for topic in CATALOG if topic.ledger]
    count = 0
    async with open_reader(bootstrap_servers, names, "beginning") as reader:
        async for batch in reader.to_end():
            for record in batch:
                take(record)
            count += len(batch)
    return count


async def verify_ledger(bootstrap_servers: str, prefix: str) -> Report:
    """The verifier's report on the ledger of one installation. Raises as `read_ledger`."""
    verifier = Verifier()
    await read_ledger(bootstrap_servers, prefix, lambda record: verifier.add(located(record)))
    return verifier.report()


def located(record: StoredRecord) -> Located:
    """A stored record as the verifier takes it."""
    return Located(record.topic, record.partition, record.offset, record.key, record.value)
