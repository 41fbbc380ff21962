"""The ledger as it lies on a broker: every record of its topics, and what the verifier makes of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sluice.adapters.kafka.kafka_read import StoredRecord, UnknownTopics, open_reader
from sluice.adapters.kafka.kafka_tree_heads import read_heads
from sluice.client.record_proofs import NO_PROOFS
from sluice.core.reports.report_tally import NotADecisionError
from sluice.verifier.export import Located
from sluice.verifier.head_check import NO_HEADS
from sluice.verifier.verify import Verifier
from sluice_topics.catalog import CATALOG, TREE_HEADS
from sluice_topics.record_proof import find_proof

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sluice.adapters.kafka.kafka_read import Start
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.record_proofs import RecordProofs
    from sluice.verifier.head_check import HeadSources
    from sluice.verifier.ledger_findings import Report
    from sluice.verifier.proof_check import SignedBy

log = logging.getLogger(__name__)


async def read_ledger(
    cluster: KafkaCluster,
    prefix: str,
    take: Callable[[StoredRecord], object],
    start: Start | int = "beginning",
    until_ms: int | None = None,
    number: int | None = None,
) -> int:
    """Hand every committed record to `take`, each partition of a topic in order; how many they were.
    `start`, `number`: see `open_reader`; `until_ms`: only what was written before it, see
    `TopicReader.to_time`.

    Raises KafkaUnreachable and UnknownTopics.
    """
    names = [f"{prefix}{topic.name}" for topic in CATALOG if topic.ledger]
    count = 0
    async with open_reader(cluster, names, start, number) as reader:
        async for batch in reader.to_end() if until_ms is None else reader.read_to_time(until_ms):
            for record in batch:
                take(record)
            count += len(batch)
    return count


async def verify_ledger(
    cluster: KafkaCluster,
    prefix: str,
    signed_by: SignedBy | None = None,
    sources: HeadSources = NO_HEADS,
) -> Report:
    """The verifier's report on the ledger of one installation, held against the heads of the topic, as far as
    there is one, and of `sources`. Raises as `read_ledger`, as Verifier and as HeadSources."""
    heads = sources.read(await locate_heads(cluster, prefix))
    verifier = Verifier(signed_by, heads)
    await read_ledger(cluster, prefix, lambda record: verifier.add(locate_record(record)))
    return verifier.make_report()


async def locate_heads(cluster: KafkaCluster, prefix: str) -> list[Located]:
    """Tree heads as the verifier takes them; none where the topic is not there. Raises KafkaUnreachable."""
    try:
        records = await read_heads(cluster, prefix)
    except UnknownTopics:
        return []
    name = f"{prefix}{TREE_HEADS}"
    return [
        Located(name, record.partition, record.offset, record.key, record.value, record.timestamp_ms)
        for record in records
    ]


def locate_record(record: StoredRecord) -> Located:
    """A stored record as the verifier takes it."""
    coordinates = record.topic, record.partition, record.offset
    return Located(*coordinates, record.key, record.value, record.timestamp_ms, find_proof(record.headers))


async def read_values(
    cluster: KafkaCluster,
    topics: Mapping[str, str],
    take: Callable[[bytes | None], None],
    start: Start | int = "beginning",
    proofs: RecordProofs = NO_PROOFS,
) -> None:
    """Hand every committed value of the topics (base name by real name) to `take`, a batch at a time.
    `start`: see `open_reader`; `proofs`: which keys must have signed the records.

    Raises KafkaUnreachable, UnknownTopics, and NotADecisionError with the record's place.
    """
    async for _, record in read_signed(cluster, topics, start, proofs):
        _hand_over(record, take)


async def read_signed(
    cluster: KafkaCluster, topics: Mapping[str, str], start: Start | int, proofs: RecordProofs
) -> AsyncIterator[tuple[str, StoredRecord]]:
    """Base topic and record of every committed record that one of the keys signed, up to the present ends;
    the log says how many none did. `topics`: base name by real name. Raises KafkaUnreachable and
    UnknownTopics."""
    passed_over = 0
    async with open_reader(cluster, list(topics), start) as reader:
        async for batch in reader.to_end():
            for record in batch:
                base = topics[record.topic]
                if proofs.find_objection(base, record) is None:
                    yield base, record
                else:
                    passed_over += 1
    if passed_over:
        log.warning("records of %s that no known key signed: %d", ", ".join(topics.values()), passed_over)


def _hand_over(record: StoredRecord, take: Callable[[bytes | None], None]) -> None:
    try:
        take(record.value)
    except NotADecisionError as error:
        origin = f"{record.topic}:{record.partition}:{record.offset}"
        raise NotADecisionError(f"{origin}: {error}") from None
