"""Members of consumer groups: one that reads the ledger, and one that resolves wanted references."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError

from sluice.client.kafka_reading import POLL_MS, make_consumer
from sluice.client.kafka_writing import KafkaWriter, Outgoing
from sluice.client.record_proofs import NO_PROOFS
from sluice.notify.backlog import AssignedPart, CommittedEvent, Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.record_proofs import RecordProofs

log = logging.getLogger(__name__)
_TAKEN_AT_ONCE = 500
_FETCH_WAIT_MS = 500
SESSION_MS = 6000
"""After so long another member takes over from one that was killed."""


class _Changes(ConsumerRebalanceListener):  # type: ignore[misc]
    """Which partitions went and came since somebody took note."""

    def __init__(self) -> None:
        self.lost: set[TopicPartition] = set()
        self.assigned: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.lost |= set(revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned |= set(assigned)


class GroupMember:
    """A member of a consumer group that reads topics as committed. Raises KafkaError from each call."""

    def __init__(self, cluster: KafkaCluster, group_id: str, topics: Sequence[str], **more: Any) -> None:
        """`topics`: their names on the broker; `more`: aiokafka's arguments."""
        self._cluster = cluster
        self._subscribed = topics
        self._more = {"group_id": group_id, **more}
        self._changes = _Changes()
        self._committed: dict[TopicPartition, int] = {}
        self._consumer: AIOKafkaConsumer | None = None

    async def connect(self) -> None:
        """Join the group."""
        self._changes = _Changes()
        self._committed = {}
        self._consumer = make_consumer(self._cluster, **self._more)
        self._consumer.subscribe(self._subscribed, listener=self._changes)
        await self._consumer.start()

    async def close(self) -> None:
        """Leave the group, also where `connect` came only half way."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    @property
    def _reader(self) -> AIOKafkaConsumer:
        assert self._consumer is not None  # noqa: S101 - `connect` comes first
        return self._consumer

    def _take_lost(self) -> set[TopicPartition]:
        """Partitions that were taken away since the last call."""
        lost, self._changes.lost = self._changes.lost, set()
        for part in lost:
            self._committed.pop(part, None)
        return lost

    async def _commit(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Commit the offsets that are new; of no position nothing is."""
        new = {
            part: at for part, at in positions.items() if at is not None and self._committed.get(part) != at
        }
        if not new:
            return
        try:
            await self._reader.commit(new)
        except (CommitFailedError, IllegalStateError):
            log.info("the group is being shared out anew; what was not committed comes again")
        else:
            self._committed |= new


class KafkaLedgerGroup(GroupMember):
    """Reads events of the ledger."""

    def __init__(
        self,
        cluster: KafkaCluster,
        group_id: str,
        topics: Mapping[str, str],
        look_back_s: float,
        proofs: RecordProofs = NO_PROOFS,
    ) -> None:
        """`topics`: base name by real name. A group without a position begins `look_back_s` ago. `proofs`:
        which keys must have signed the records."""
        bounds = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 6}
        super().__init__(cluster, group_id, list(topics), fetch_max_wait_ms=POLL_MS, **bounds)
        self._proofs = proofs
        self._topics = topics
        self._look_back_s = look_back_s

    async def read_changes(self) -> tuple[frozenset[Part], Sequence[AssignedPart]]:
        """Which partitions went and came since the last call; those that came begin where they are committed,
        or, for a new group, `look_back_s` ago."""
        lost = self._take_lost()
        came, self._changes.assigned = self._changes.assigned, set()
        parts = []
        for part in sorted(came):
            with suppress(IllegalStateError):  # lost again meanwhile: it comes another time
                parts.append(await self._begin(part))
        return frozenset(map(self._name_part, lost)), parts

    async def read_some(self, wait_s: float, *, paused: bool) -> tuple[list[CommittedEvent], dict[Part, int]]:
        """Return new events of the partitions that `read_changes` gave, and the offset up to which each is
        read."""
        consumer = self._reader
        mine = [part for part in consumer.assignment() if part not in self._changes.assigned]
        (consumer.pause if paused else consumer.resume)(*mine)
        batch = await consumer.getmany(timeout_ms=int(1000 * wait_s), max_records=_TAKEN_AT_ONCE)
        new = self._changes.assigned | self._changes.lost  # read again, from where they are committed
        records = [
            record
            for part, messages in batch.items()
            if part not in new
            for message in messages
            if (record := self._read_record(part, message)) is not None
        ]
        positions = {}
        for part in mine:
            if part not in new:
                with suppress(IllegalStateError):
                    positions[self._name_part(part)] = await consumer.position(part)
        return records, positions

    async def commit(self, positions: Mapping[Part, int]) -> None:
        """Commit the offset at which the next owner of each partition begins. What is no longer owned is the
        owner's business."""
        await self._commit({part: positions.get(self._name_part(part)) for part in self._reader.assignment()})

    def _name_part(self, part: TopicPartition) -> Part:
        return self._topics[part.topic], part.partition

    async def _begin(self, part: TopicPartition) -> AssignedPart:
        consumer = self._reader
        committed, end = await consumer.committed(part), (await consumer.end_offsets([part]))[part]
        old_until = 0
        if committed is None:
            since = int(1000 * (time.time() - self._look_back_s))
            begin = (await consumer.offsets_for_times({part: since}))[part]
            committed, old_until = end if begin is None else begin.offset, end
            await consumer.commit({part: committed})
        consumer.seek(part, committed)
        return AssignedPart(self._name_part(part), committed, old_until)

    def _read_record(self, part: TopicPartition, message: Any) -> CommittedEvent | None:
        fields = self._proofs.read_record(self._topics[part.topic], message)
        if fields is None:
            return None
        return CommittedEvent(self._name_part(part), message.offset, message.timestamp, fields)


class KafkaProvenance(GroupMember):
    """Reads the topic of wanted references, and writes that of their records.

    `wanted` and `records` are the topics' names on the broker; `max_request_bytes` bounds a record.
    """

    def __init__(
        self, cluster: KafkaCluster, group_id: str, wanted: str, records: str, *, max_request_bytes: int
    ) -> None:
        super().__init__(cluster, group_id, [wanted], fetch_max_wait_ms=_FETCH_WAIT_MS)
        self._records = records
        self._writer = KafkaWriter(cluster, max_request_size=max_request_bytes)

    async def connect(self) -> None:
        """Before anything else."""
        await self._writer.connect()
        await super().connect()

    async def some(self) -> Sequence[tuple[int, int, bytes | None]]:
        """Partition, offset and value of what came since the last call; waits a moment where nothing did."""
        batch = await self._reader.getmany(timeout_ms=POLL_MS, max_records=_TAKEN_AT_ONCE)
        return [
            (message.partition, message.offset, message.value) for many in batch.values() for message in many
        ]

    def take_lost(self) -> frozenset[int]:
        """Partitions that were taken away since the last call."""
        return frozenset(part.partition for part in self._take_lost())

    async def publish(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Keys and values; the key chooses the partition. All are acknowledged when it returns."""
        await self._writer.write(self._records, [Outgoing(key, value) for key, value in records])

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Commit the offset at which the next owner of each partition begins. What is no longer owned is the
        owner's business."""
        await self._commit({part: positions.get(part.partition) for part in self._reader.assignment()})

    async def close(self) -> None:
        """Give up both connections, also where `connect` came only half way."""
        try:
            await super().close()
        finally:
            await self._writer.close()
