"""The topic of wanted references on a broker, shared by a consumer group, and the topic of their records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError

from sluice.client.kafka_reading import POLL_MS, make_consumer
from sluice.client.kafka_writing import KafkaWriter, Outgoing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster

log = logging.getLogger(__name__)

_TAKEN_AT_ONCE = 500
_FETCH_WAIT_MS = 500


class KafkaProvenance:
    """One consumer, a member of `group_id`, and one producer. Raises KafkaError from each call.

    `wanted` and `records` are the topics' names on the broker; `max_request_bytes` bounds a record.
    """

    def __init__(
        self, cluster: KafkaCluster, group_id: str, wanted: str, records: str, *, max_request_bytes: int
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._wanted = wanted
        self._records = records
        self._consumer: AIOKafkaConsumer | None = None
        self._writer = KafkaWriter(cluster, max_request_size=max_request_bytes)
        self._members = _ProvenanceMembers()
        self._committed: dict[int, int] = {}

    async def connect(self) -> None:
        """Before anything else."""
        self._members = _ProvenanceMembers()
        self._committed = {}
        await self._writer.connect()
        self._consumer = make_consumer(
            self._cluster, "read_committed", _FETCH_WAIT_MS, group_id=self._group_id
        )
        self._consumer.subscribe([self._wanted], listener=self._members)
        await self._consumer.start()

    async def some(self) -> Sequence[tuple[int, int, bytes | None]]:
        """Partition, offset and value of what came since the last call; waits a moment where nothing did."""
        assert self._consumer is not None  # noqa: S101 - `connect` comes first
        batch = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=_TAKEN_AT_ONCE)
        return [
            (message.partition, message.offset, message.value) for many in batch.values() for message in many
        ]

    def take_lost(self) -> frozenset[int]:
        """Partitions that were taken away since the last call."""
        lost, self._members.lost = self._members.lost, set()
        for partition in lost:
            self._committed.pop(partition, None)
        return frozenset(lost)

    async def publish(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Keys and values; the key chooses the partition. All are acknowledged when it returns."""
        await self._writer.write(self._records, [Outgoing(key, value) for key, value in records])

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Commit the offset at which the next owner of each partition begins. What is no longer owned is the
        owner's business."""
        assert self._consumer is not None  # noqa: S101 - likewise
        owned = {part.partition for part in self._consumer.assignment()}
        new = {n: at for n, at in positions.items() if n in owned and self._committed.get(n) != at}
        if not new:
            return
        try:
            await self._consumer.commit({TopicPartition(self._wanted, n): at for n, at in new.items()})
        except CommitFailedError:
            log.info("the group is being shared out anew; what was not committed comes again")
        else:
            self._committed |= new

    async def close(self) -> None:
        """Give up both connections, also where `connect` came only half way."""
        consumer, self._consumer = self._consumer, None
        try:
            if consumer is not None:
                await consumer.stop()
        finally:
            await self._writer.close()


class _ProvenanceMembers(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.lost: set[int] = set()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.lost |= {part.partition for part in revoked}

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Nothing: the consumer begins at what is committed."""
