"""What the ledger on a broker says of retrievals: decisions, reports, alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.adapters.kafka_read import open_reader
from app.core.retrieval.report_tally import NotADecisionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.adapters.kafka_read import StoredRecord


async def read_values(
    bootstrap_servers: str, topics: Sequence[str], take: Callable[[bytes | None], None]
) -> None:
    """Hand every committed value of the topics, by their names on the broker, to `take`, a batch at a time.

    Raises KafkaUnreachable, UnknownTopics, and NotADecisionError with the record's place.
    """
    async with open_reader(bootstrap_servers, topics, "beginning") as reader:
        async for batch in reader.to_end():
            for record in batch:
                _taken(record, take)


def _taken(record: StoredRecord, take: Callable[[bytes | None], None]) -> None:
    try:
        take(record.value)
    except NotADecisionError as error:
        place = f"{record.topic}:{record.partition}:{record.offset}"
        raise NotADecisionError(f"{place}: {error}") from None
