"""The ledger as it lies on a broker: every record of its topics, and what the verifier makes of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiokafka.partitioner import murmur2

from sluice.adapters.kafka.kafka_read import (
    StoredRecord,
    UnknownTopics,
    list_partitions,
    open_partitions,
    open_reader,
)
from sluice.adapters.kafka.kafka_tree_heads import read_heads
from sluice.client.record_proofs import NO_PROOFS
from sluice.core.reports.report_tally import NotADecisionError
from sluice.core.state.session import session_key
from sluice.verifier.export import Located
from sluice.verifier.head_check import NO_HEADS
from sluice.verifier.verify import Verifier
from sluice_topics.catalog import CATALOG, TREE_HEADS
from sluice_topics.record_proof import find_proof

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from sluice.adapters.kafka.kafka_read import Start
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.record_proofs import RecordProofs
    from sluice.verifier.head_check import HeadSources
    from sluice.verifier.ledger_findings import Report
    from sluice.verifier.proof_check import SignedBy

log = logging.getLogger(__name__)
LEDGER = tuple(topic.name for topic in CATALOG if topic.ledger)


@dataclass(frozen=True, slots=True)
class LedgerReader:
    """Reads topics of one installation, from one moment to another. `topics`: base name by real name;
    `proofs`: which keys must have signed the records."""

    cluster: KafkaCluster
    topics: Mapping[str, str]
    proofs: RecordProofs = NO_PROOFS

    @classmethod
    def of(cls, cluster: KafkaCluster, prefix: str, bases: Iterable[str]) -> LedgerReader:
        """Read these topics (base names), whoever signed their records."""
        return cls(cluster, {f"{prefix}{base}": base for base in bases})

    async def read_batches(
        self, start: Start | int = "beginning", until_ms: int | None = None, number: int | None = None
    ) -> AsyncIterator[list[tuple[str, StoredRecord]]]:
        """Base topic and record of every committed record that counts, in batches, each partition of a topic
        in order; the log says how many no key signed. `start`, `number`: see `open_reader`; `until_ms`: only
        what was written before it, see `TopicReader.read_to_time`; None: up to the present ends.

        Raises KafkaUnreachable and UnknownTopics.
        """
        passed_over = 0
        async with open_reader(self.cluster, list(self.topics), start, number) as reader:
            async for batch in reader.to_end() if until_ms is None else reader.read_to_time(until_ms):
                named = [(self.topics[record.topic], record) for record in batch]
                counting = [pair for pair in named if self.proofs.find_objection(*pair) is None]
                passed_over += len(named) - len(counting)
                yield counting
        if passed_over:
            names = ", ".join(self.topics.values())
            log.warning("records of %s that no known key signed: %d", names, passed_over)

    async def read(self, start: Start | int = "beginning") -> AsyncIterator[tuple[str, StoredRecord]]:
        """As `read_batches`, one by one."""
        async for batch in self.read_batches(start):
            for pair in batch:
                yield pair

    async def find_first(
        self, number: int, since_ms: int, holds: Callable[[bytes], bool]
    ) -> StoredRecord | None:
        """The first record of one partition, written then or later, of whose value `holds` is true and that
        counts; None where there is none, or no such partition."""
        listed = await list_partitions(self.cluster, list(self.topics))
        partitions = [part for part in listed if part.partition == number]
        if not partitions:
            return None
        async with open_partitions(self.cluster, partitions, since_ms) as reader:
            async for batch in reader.to_end():
                for record in batch:
                    base = self.topics[record.topic]
                    if holds(record.value or b"") and self.proofs.find_objection(base, record) is None:
                        return record
        return None


async def read_ledger(
    cluster: KafkaCluster,
    prefix: str,
    take: Callable[[StoredRecord], object],
    start: Start | int = "beginning",
    until_ms: int | None = None,
    number: int | None = None,
) -> int:
    """Hand every committed record of the ledger to `take`; how many they were. Takes and raises as
    `LedgerReader.read_batches`."""
    reader = LedgerReader.of(cluster, prefix, LEDGER)
    count = 0
    async for batch in reader.read_batches(start, until_ms, number):
        for _, record in batch:
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
    async for _, record in LedgerReader(cluster, topics, proofs).read(start):
        try:
            take(record.value)
        except NotADecisionError as error:
            origin = f"{record.topic}:{record.partition}:{record.offset}"
            raise NotADecisionError(f"{origin}: {error}") from None


async def has_state(cluster: KafkaCluster, changelog: str, partitions: int, session_id: str) -> bool:
    """Whether a session lives: its partition's changelog has its state. `changelog`: the topic's name on the
    broker. Raises KafkaUnreachable and UnknownTopics."""
    key, lives = session_key(session_id), False
    number = int(murmur2(session_id.encode()) & 0x7FFFFFFF) % partitions
    async for batch in LedgerReader(cluster, {changelog: changelog}).read_batches(number=number):
        present = [record.value is not None for _, record in batch if record.key == key]
        lives = present[-1] if present else lives
    return lives
