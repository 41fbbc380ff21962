"""Ledger topics on a broker, shared by a consumer group, and what a notifier keeps beside them."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from sluice.client.kafka_reading import POLL_MS, make_consumer, open_consumer, read_to
from sluice.client.kafka_writing import KafkaWriter, Outgoing
from sluice.client.record_proofs import NO_PROOFS
from sluice.notify.backlog import AssignedPart, CommittedEvent, Part
from sluice_topics.record_reading import read
from sluice_topics.records import NotifiedSubject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.record_proofs import RecordProofs

log = logging.getLogger(__name__)
_TAKEN_AT_ONCE = 500
SESSION_MS = 6000
"""After so long another member takes over from one that was killed."""


class KafkaLedgerGroup:
    """A member of `group_id` that reads topics as committed. Raises KafkaError from each call."""

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
        self._proofs = proofs
        self._cluster = cluster
        self._group_id = group_id
        self._topics = topics
        self._look_back_s = look_back_s
        self._members = _LedgerMembers()
        self._committed: dict[TopicPartition, int] = {}
        self._consumer: AIOKafkaConsumer | None = None

    async def connect(self) -> None:
        """Join the group."""
        self._consumer = make_consumer(
            self._cluster,
            "read_committed",
            POLL_MS,
            group_id=self._group_id,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=SESSION_MS // 6,
        )
        self._consumer.subscribe(list(self._topics), listener=self._members)
        await self._consumer.start()

    async def read_changes(self) -> tuple[frozenset[Part], Sequence[AssignedPart]]:
        """Which partitions went and came since the last call; those that came begin where they are committed,
        or, for a new group, `look_back_s` ago."""
        lost, self._members.lost = self._members.lost, set()
        came, self._members.assigned = self._members.assigned, set()
        for part in lost:
            self._committed.pop(part, None)
        parts = []
        for part in sorted(came):
            with suppress(IllegalStateError):  # lost again meanwhile: it comes another time
                parts.append(await self._begin(part))
        return frozenset(map(self._name_part, lost)), parts

    async def read_some(self, wait_s: float, *, paused: bool) -> tuple[list[CommittedEvent], dict[Part, int]]:
        """Return new events of the partitions that `read_changes` gave, and the offset up to which each is
        read."""
        consumer = self._reader
        mine = [part for part in consumer.assignment() if part not in self._members.assigned]
        (consumer.pause if paused else consumer.resume)(*mine)
        batch = await consumer.getmany(timeout_ms=int(1000 * wait_s), max_records=_TAKEN_AT_ONCE)
        new = self._members.assigned | self._members.lost  # read again, from where they are committed
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
        consumer = self._reader
        wanted = {part: positions.get(self._name_part(part)) for part in consumer.assignment()}
        new = {part: at for part, at in wanted.items() if at is not None and self._committed.get(part) != at}
        if not new:
            return
        try:
            await consumer.commit(new)
        except (CommitFailedError, IllegalStateError):
            log.info("the group is being shared out anew; what was not committed comes again")
        else:
            self._committed |= new

    async def close(self) -> None:
        """Leave the group."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    @property
    def _reader(self) -> AIOKafkaConsumer:
        assert self._consumer is not None  # noqa: S101 - `connect` comes first
        return self._consumer

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


class _LedgerMembers(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.lost: set[TopicPartition] = set()
        self.assigned: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.lost |= set(revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned |= set(assigned)


class KafkaNotified:
    """The subjects that were notified, in a compacted topic. Raises KafkaError from each call."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._writer = KafkaWriter(cluster)

    async def read_newest(self, partitions: Iterable[int]) -> dict[str, NotifiedSubject]:
        """The newest record of each subject of these partitions, up to the topic's end as of now."""
        parts = [TopicPartition(self._topic, number) for number in partitions]
        newest: dict[str, NotifiedSubject] = {}
        async with open_consumer(self._cluster, "read_uncommitted", parts=parts) as consumer:
            async for batch in read_to(consumer, await consumer.end_offsets(parts)):
                for message in batch:
                    record = read(NotifiedSubject, message.value or b"")
                    if isinstance(record, NotifiedSubject):
                        newest[record.subject_id] = record
        return newest

    async def keep(self, partition: int, record: NotifiedSubject) -> None:
        """It is acknowledged when this returns."""
        value = orjson.dumps(record.model_dump(mode="json", by_alias=True))
        await self._writer.write(self._topic, [Outgoing(record.subject_id.encode(), value)], partition)

    async def close(self) -> None:
        """Give up the connection."""
        await self._writer.close()
