"""Restores an installation on a new cluster from its archive: the same topics under the same names, each
record at the offset and with the time that it had.

Decisions name their inputs by offset, the workers' state says up to which offset of each input topic all is
decided, and the ledger's ids follow from offsets. So offsets are kept. Where none of a partition's records
lies, because markers of transactions took the offset or what lay there was rolled back, a marker is written
again: a short run of records goes in one transaction, whose commit takes the offset behind it, and what is
missing besides is filled with records that are rolled back, which nobody reads. Offsets before a partition's
first record are filled so, and then deleted. Of a compacted topic only the newest record of each key is
written, and the end is filled up to where it was. Times are the producer's while topics are restored, and
afterwards the broker's.

An archive that followed a running installation ends somewhere else in each partition. A partition's state and
its ledger are cut back to the last transaction of which both are there and all inputs that it decided
(`find_cuts`); inputs behind it are decided again.

What those inputs had written on its way to other partitions (`source-feedback`, `destination-uses`) they
write again: such records are left out (`find_repeated`), and a partition that had counted one is cut back
further.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from aiokafka import TopicPartition
from aiokafka.admin import NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError

from sluice.adapters.archive.manifest import ArchiveRefused
from sluice.adapters.archive.segment import ArchiveDamaged, read_head
from sluice.adapters.kafka.kafka_read import StoredRecord, fetch_ends, make_unreachable, open_admin
from sluice.adapters.kafka.kafka_topics import KafkaTopicError, await_topics
from sluice.client.kafka_reading import open_consumer
from sluice.client.kafka_writing import make_producer
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.input_record import memory_id
from sluice_topics.access import RESTORING_WRITER
from sluice_topics.catalog import (
    DESTINATION_USES,
    MAX_OUTPUT_MESSAGE_BYTES,
    MEMORY_WRITES,
    OUTCOMES,
    REVIEWS,
    SESSIONS_CHANGELOG,
    SOURCE_FEEDBACK,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    from sluice.adapters.archive.archived_records import Archive
    from sluice.adapters.archive.manifest import Part
    from sluice.client.kafka_connection import KafkaCluster
    from sluice_topics.catalog import Topic
    from sluice_topics.layout import TopicLayout

log = logging.getLogger(__name__)

_AT_ONCE = 12
_BATCH_BYTES = 512 * 1024
_MOST_SENT = 16
_FILLER = b"filler"
"""A key, which records of compacted topics must have."""
_MARKERS_S = 60.0
_POLL_S = 0.01
_FILLED_AT_ONCE = 50_000
_TRANSACTION_MS = 600_000
MOST_RUN_RECORDS = 2000
MOST_RUN_BYTES = 8 * 1024 * 1024
"""What a transaction takes at most; it must end before `_TRANSACTION_MS`."""
MOST_FILLED = 50_000_000
"""Some two and a half minutes, and a gigabyte on the broker for a while."""
_KEEP = {"retention.ms": "-1"}
_PRODUCERS_TIME = {"message.timestamp.type": "CreateTime"}


@dataclass(frozen=True, slots=True)
class StateReader:
    """How the workers' changelog is read. `key`: of the record that each transaction writes last; `read`
    gives the ledger's number after it, and by input topic (base name) what was decided."""

    key: bytes
    read: Callable[[bytes], tuple[int, Mapping[str, DecidedInputs]]]


@dataclass(frozen=True, slots=True)
class DecidedInputs:
    """What was decided of an input partition: all below `following` but `pending`."""

    following: int
    pending: tuple[int, ...] = ()

    @property
    def first_undecided(self) -> int:
        return min(self.pending, default=self.following)

    def has(self, offset: int) -> bool:
        """Whether the input at an offset was decided."""
        return offset < self.following and offset not in self.pending


NOTHING_DECIDED = DecidedInputs(0)


@dataclass(frozen=True, slots=True)
class Cut:
    """Of a partition number: `sequence`, the last number of the ledger that is restored; `changelog`, the
    offset of the last record of the state; `decided`, see StateReader; `dropped`: records of the ledger
    that are not restored; `beyond`: by input topic (base name) the offset at which the archive ends before
    the first undecided one: the broker had deleted what lies between before it was archived."""

    sequence: int = 0
    changelog: int = -1
    decided: Mapping[str, DecidedInputs] = field(default_factory=dict)
    dropped: int = 0
    beyond: Mapping[str, int] = field(default_factory=dict)

    @property
    def positions(self) -> dict[str, int]:
        """By input topic (base name) the first undecided offset."""
        return {base: inputs.first_undecided for base, inputs in self.decided.items()}


Repeated = dict[tuple[str, int], set[int]]
"""By topic (base name) and partition, offsets of records that inputs will write again."""


def find_consistent_cuts(
    archive: Archive, layout: TopicLayout, state: StateReader
) -> tuple[dict[int, Cut], Repeated]:
    """The cuts, and what the inputs behind them will write again. A partition that had counted one of them is
    cut back to before that, if the archive has such a state; its own inputs may have written others, so this
    goes on until nothing changes. Raises ArchiveDamaged and StoreError."""
    limits: dict[tuple[str, int], int] = {}
    while True:
        cuts = find_cuts(archive, layout, state, limits)
        repeated = find_repeated(archive, layout, cuts)
        counted = {
            part: min(decided)
            for part, offsets in repeated.items()
            if (decided := _list_decided(cuts[part[1]], part[0], offsets))
        }
        tighter = {part: at for part, at in counted.items() if at < limits.get(part, sys.maxsize)}
        if not tighter:
            return cuts, repeated
        limits |= tighter


def _list_decided(cut: Cut, base: str, offsets: Iterable[int]) -> list[int]:
    decided = cut.decided.get(base, NOTHING_DECIDED)
    return [offset for offset in offsets if decided.has(offset)]


_SAID_BY = {
    MEMORY_WRITES: (SOURCE_FEEDBACK, None),
    REVIEWS: (SOURCE_FEEDBACK, "subject_id"),
    OUTCOMES: (DESTINATION_USES, "action_id"),
}
"""By input topic, where its inputs have something counted, and their field that names what it is about."""


def find_repeated(archive: Archive, layout: TopicLayout, cuts: Mapping[int, Cut]) -> Repeated:
    """What the archive has of records that inputs behind the cuts wrote on their way to other partitions: of
    the same memory or action, and not before the input. Raises ArchiveDamaged and StoreError."""
    names = {topic.name: name for name, topic in layout.topics().items()}
    since: dict[tuple[str, bool, str], int] = {}
    for base, (schema_field, subject) in _SAID_BY.items():
        for number, cut in cuts.items():
            decided = cut.decided.get(base, NOTHING_DECIDED)
            for record in _read_from(archive, (names[base], number), decided.first_undecided):
                about = (
                    memory_id(f"{base}:{number}:{record.offset}")
                    if subject is None
                    else _read_text(record, subject)
                )
                if about is not None and not decided.has(record.offset):
                    key = schema_field, subject is None, about
                    since[key] = min(record.timestamp_ms, since.get(key, record.timestamp_ms))
    repeated: Repeated = {}
    for kind in {topic for topic, _, _ in since}:
        first_ms = min(at for (topic, _, _), at in since.items() if topic == kind)
        for part in archive.list_parts({names[kind]}):
            for batch in archive.read_part(part, first_ms):
                offsets = {
                    stored_record.offset
                    for stored_record in batch
                    if _is_repeated(kind, stored_record, since)
                }
                if offsets:
                    repeated.setdefault((kind, part[1]), set()).update(offsets)
    return repeated


def _is_repeated(kind: str, record: StoredRecord, since: Mapping[tuple[str, bool, str], int]) -> bool:
    about = _read_text(record, "memory_id" if kind == SOURCE_FEEDBACK else "action_id")
    at = _read_text(record, "decided_at")
    is_first_sight = kind == SOURCE_FEEDBACK and _read_text(record, "verdict") == "seen"
    if about is None or at is None:
        return False
    try:
        return read_milliseconds(at) >= since.get((kind, is_first_sight, about), sys.maxsize)
    except ValueError:
        return False


def _read_from(archive: Archive, part: Part, offset: int) -> Iterator[StoredRecord]:
    for segment in archive.list_segments(part):
        if segment.end > offset:
            for batch in archive.read_batches(segment):
                yield from (record for record in batch if record.offset >= offset)


def _read_text(record: StoredRecord, name: str) -> str | None:
    """A text field of a record; None where it has none, as an input that nobody checked may have."""
    try:
        value = orjson.loads(record.value or b"null")[name]
    except (ValueError, TypeError, KeyError):
        return None
    return value if isinstance(value, str) else None


def find_cuts(
    archive: Archive,
    layout: TopicLayout,
    state: StateReader,
    limits: Mapping[tuple[str, int], int] | None = None,
) -> dict[int, Cut]:
    """By partition number, the last transaction of which the archive has both ledger and state, and the
    inputs. `limits`: by topic (base name) and partition, an offset of which nothing from there on may be
    decided, if the archive has a state without it. Reads ledger and state whole; holds 8 bytes for each
    ledger record. Raises ArchiveDamaged and StoreError."""
    topics = layout.topics()
    ledger = [name for name, topic in topics.items() if topic.ledger]
    changelog = next(name for name, topic in topics.items() if topic.name == SESSIONS_CHANGELOG)
    cuts = {}
    for number in range(layout.partitions):
        last, count = _find_last_number(archive, [(name, number) for name in ledger])
        ends = {
            topic.name: (
                archive.manifest.find_end((name, number)) or 0,
                archive.find_read_end((name, number)),
            )
            for name, topic in topics.items()
        }
        read_ends = {base: end for base, (_, end) in ends.items()}
        limits_of = {base: at for (base, of), at in (limits or {}).items() if of == number}
        cut = _find_state(archive, (changelog, number), state, last, (read_ends, limits_of))
        beyond = {base: ends[base][0] for base, at in cut.positions.items() if at > ends[base][0]}
        cuts[number] = Cut(cut.sequence, cut.changelog, cut.decided, count - cut.sequence, beyond)
    return cuts


def _find_last_number(archive: Archive, parts: Iterable[Part]) -> tuple[int, int]:
    """The number up to which the ledger is there without a gap, and the highest that is there."""
    numbers = array("Q")
    for part in parts:
        for batch in archive.read_part(part):
            numbers.extend(head.sequence for record in batch if (head := read_head(record.value)) is not None)
    last = 0
    for number in sorted(set(numbers)):
        if last and number != last + 1:
            break
        last = number
    return last, max(numbers, default=0)


def _find_state(
    archive: Archive,
    part: Part,
    state: StateReader,
    last: int,
    bounds: tuple[Mapping[str, int], Mapping[str, int]],
) -> Cut:
    """The last state up to a number of the ledger that decided nothing behind `bounds`: ends of input topics,
    and limits that hold where both can be kept. If there is none, the last up to that number."""
    ends, limits = bounds
    newest: Cut | None = None
    fitting: Cut | None = None
    limited: Cut | None = None
    for batch in archive.read_part(part):
        for record in batch:
            if record.key == state.key and record.value is not None:
                sequence, decided = state.read(record.value)
                if sequence <= last:
                    newest = Cut(sequence, record.offset, decided)
                    if all(at <= ends.get(base, 0) for base, at in newest.positions.items()):
                        fitting = newest
                        if all(
                            decided.get(base, NOTHING_DECIDED).following <= at for base, at in limits.items()
                        ):
                            limited = newest
    return limited or fitting or newest or Cut()


@dataclass(frozen=True, slots=True)
class Restored:
    """What was written: records, offsets filled in, and by partition number where it was cut."""

    records: int
    filled: int
    cuts: Mapping[int, Cut]


class Restorer:
    """Run it once with `run`. A restoration that was interrupted is begun anew on deleted topics."""

    def __init__(
        self,
        cluster: KafkaCluster,
        archive: Archive,
        layout: TopicLayout,
        state: StateReader,
        replication: int,
        most_filled: int = MOST_FILLED,
    ) -> None:
        """`most_filled`: offsets without a record that may be filled in, of all partitions together."""
        self._most_filled = most_filled
        self._cluster = cluster
        self._archive = archive
        self._layout = layout
        self._state = state
        self._replication = replication
        self._topics = layout.topics()
        self._repeated: Repeated = {}
        self._records = 0
        self._filled = 0

    async def run(self, group: str) -> Restored:
        """Restore everything. `group`: the workers', whose offsets are set to what the state says.

        Raises ArchiveRefused where the archive has no state, or topics are there already; ArchiveDamaged
        before anything was written; StoreError; KafkaUnreachable; KafkaTopicError.
        """
        await asyncio.to_thread(self._require_whole)
        cuts, self._repeated = await asyncio.to_thread(
            find_consistent_cuts, self._archive, self._layout, self._state
        )
        self._require_bounded(cuts)
        try:
            await self._require_no_topics()
            await self._end_earlier_transactions(cuts)
            await self._create_topics()
            async with open_consumer(self._cluster, "read_uncommitted") as asking:
                await self._write_all(cuts, asking)
            await self._set_offsets(group, cuts)
            await self._alter_topics()
        except (KafkaError, TimeoutError) as error:
            raise make_unreachable(self._cluster, error) from error
        return Restored(self._records, self._filled, cuts)

    def _require_whole(self) -> None:
        changelog = {name for name, topic in self._topics.items() if topic.name == SESSIONS_CHANGELOG}
        if not self._archive.list_parts(changelog):
            raise ArchiveRefused(
                f"{self._archive.store.url} has no state of workers (archive.state was off): without it they "
                "would decide everything again"
            )
        for finding in self._archive.check():
            if finding.code != "offsets_missing":
                raise ArchiveDamaged(f"{finding.where}: {finding.message}")
        beyond = [part for part in self._archive.manifest.segments if not self._has(part)]
        if beyond:
            raise ArchiveRefused(
                f"the archive has {beyond[0][0]}:{beyond[0][1]}, which the settings do not: "
                "kafka.partitions, kafka.topic_prefix and worker.app_id must be as they were"
            )

    def _require_bounded(self, cuts: Mapping[int, Cut]) -> None:
        """Refuse an archive with so many offsets without a record that nobody would wait for them."""
        missing = {
            part: max(
                0,
                self._find_end(part, cuts)
                - sum(segment.count for segment in self._archive.list_segments(part)),
            )
            for part in self._list_parts()
        }
        if (total := sum(missing.values())) > self._most_filled:
            name, number = max(missing, key=lambda part: missing[part])
            raise ArchiveRefused(
                f"{total} offsets have no record and must be filled in, {missing[name, number]} of them of "
                f"{name}:{number}: some {total * 3 // 60_000_000 + 1} minutes; if that is right, pass "
                f"--most-filled {total}"
            )

    def _list_parts(self) -> list[Part]:
        return [
            (name, number)
            for name, topic in self._topics.items()
            if topic.direction != "keys"
            for number in range(self._layout.count_partitions(topic))
        ]

    def _find_end(self, part: Part, cuts: Mapping[int, Cut]) -> int:
        """The offset that a partition must reach; 0 where there is nothing to restore."""
        segments = self._archive.list_segments(part)
        cut = cuts.get(part[1], Cut())
        return max(segments[-1].end if segments else 0, cut.positions.get(self._topics[part[0]].name, 0))

    async def _end_earlier_transactions(self, cuts: Mapping[int, Cut]) -> None:
        """End what an interrupted restoration left open, while there is no topic: else the marker of its end
        comes to lie in the new one, at an offset of a record."""
        bound = asyncio.Semaphore(_AT_ONCE)

        async def end(part: Part) -> None:
            async with bound:
                producer = _build_filling(self._cluster, part)
                try:
                    await producer.start()
                finally:
                    await producer.stop()

        await asyncio.gather(*(end(part) for part in self._list_parts() if self._find_end(part, cuts)))

    def _has(self, part: Part) -> bool:
        topic = self._topics.get(part[0])
        return topic is not None and part[1] < self._layout.count_partitions(topic)

    async def _require_no_topics(self) -> None:
        async with open_admin(self._cluster) as admin:
            restored = {name for name, topic in self._topics.items() if topic.direction != "keys"}
            there = sorted(restored & set(await admin.list_topics()))
        if there:
            raise ArchiveRefused(
                f"{there[0]} and {len(there) - 1} more topics are there already: restore to a cluster "
                "without them"
            )

    async def _create_topics(self) -> None:
        new_topics = [
            NewTopic(
                name,
                self._layout.count_partitions(topic),
                self._replication,
                topic_configs=topic.config() | (_KEEP | _PRODUCERS_TIME if _is_log(topic) else {}),
            )
            for name, topic in self._topics.items()
        ]
        async with open_admin(self._cluster) as admin:
            response = await admin.create_topics(new_topics)
            for name, code, *rest in response.topic_errors:
                is_kept = self._topics[name].direction == "keys" and code == TopicAlreadyExistsError.errno
                if code and not is_kept:
                    raise KafkaTopicError(f"{name} was not created: code {code}, {rest[:1]}")
            await await_topics(admin, set(self._topics))

    async def _alter_topics(self) -> None:
        """Give the topics back the broker's time and their retention."""
        wanted = [
            ConfigResource(ConfigResourceType.TOPIC, name, topic.config())
            for name, topic in self._topics.items()
            if _is_log(topic)
        ]
        async with open_admin(self._cluster) as admin:
            for answer in await admin.alter_configs(wanted):
                for code, message, _, name in answer.resources:
                    if code:
                        raise KafkaTopicError(f"{name} was not altered: code {code}, {message}")

    async def _write_all(self, cuts: Mapping[int, Cut], asking: AIOKafkaConsumer) -> None:
        parts = [TopicPartition(*part) for part in self._list_parts()]
        await fetch_ends(asking, parts)
        bound = asyncio.Semaphore(_AT_ONCE)

        async def write(part: TopicPartition) -> None:
            async with bound:
                await self._write_part(part, cuts, asking)

        tasks = [asyncio.create_task(write(part)) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_part(
        self, part: TopicPartition, cuts: Mapping[int, Cut], asking: AIOKafkaConsumer
    ) -> None:
        topic, cut = self._topics[part[0]], cuts.get(part[1], Cut())
        segments, end = self._archive.list_segments(part), self._find_end(part, cuts)
        if not end:
            return
        repeated = self._repeated.get((topic.name, part[1]), set())
        writer = _OffsetWriter(self._cluster, part, asking)
        try:
            await writer.start()
            if _is_log(topic):
                await self._write_log(writer, part, cut.sequence if topic.ledger else None, repeated)
            else:
                is_state = topic.name == SESSIONS_CHANGELOG
                await self._write_newest(writer, part, cut.changelog if is_state else None)
            await writer.finish(end)
        finally:
            await writer.stop()
        if _is_log(topic):
            await self._delete_before(part, segments[0].first if segments else end)
        self._records += writer.records
        self._filled += writer.filled

    async def _write_newest(self, writer: _OffsetWriter, part: TopicPartition, until: int | None) -> None:
        """Of a compacted topic, the newest record of each key up to an offset, one behind the other."""
        newest: dict[bytes | None, int] = {}
        for batch in self._read(part):
            for record in await batch:
                if until is None or record.offset <= until:
                    if record.value is None:
                        newest.pop(record.key, None)
                    else:
                        newest[record.key] = record.offset
        wanted = set(newest.values())
        for batch in self._read(part):
            for item in await batch:
                if item.offset in wanted:
                    await writer.append(item)

    async def _write_log(
        self, writer: _OffsetWriter, part: TopicPartition, until: int | None, repeated: Collection[int]
    ) -> None:
        """Every record at its offset, but those that will be written again; of the ledger up to a number."""
        for batch in self._read(part):
            for item in await batch:
                if until is not None and _get_number(item) > until:
                    return
                if item.offset not in repeated:
                    await writer.write(item)

    def _read(self, part: Part) -> Iterator[Any]:
        """Awaitables of batches, each read in a thread; the last one is empty."""
        batches = self._archive.read_part(part)
        is_over = False

        async def read_next() -> list[StoredRecord]:
            nonlocal is_over
            batch = await asyncio.to_thread(next, batches, None)
            is_over = batch is None
            return batch or []

        while not is_over:
            yield read_next()

    async def _delete_before(self, part: TopicPartition, offset: int) -> None:
        """Delete what was filled in before a partition's first record."""
        if offset:
            async with open_admin(self._cluster) as admin:
                await admin.delete_records({part: RecordsToDelete(before_offset=offset)})

    async def _set_offsets(self, group: str, cuts: Mapping[int, Cut]) -> None:
        names = {topic.name: name for name, topic in self._topics.items()}
        offsets = {
            TopicPartition(names[base], number): offset
            for number, cut in cuts.items()
            for base, offset in cut.positions.items()
            if offset and base in names
        }
        if not offsets:
            return
        async with open_consumer(self._cluster, group_id=group) as consumer:
            consumer.assign(list(offsets))
            await consumer.commit(offsets)


def _is_log(topic: Topic) -> bool:
    """Whether offsets of a topic count: of one that is compacted only the newest record of a key does."""
    return topic.cleanup == "delete"


def _get_number(record: StoredRecord) -> int:
    head = read_head(record.value)
    return 0 if head is None else head.sequence


_SIZES = {"max_batch_size": MAX_OUTPUT_MESSAGE_BYTES, "max_request_size": MAX_OUTPUT_MESSAGE_BYTES}


def _build_filling(cluster: KafkaCluster, part: Part) -> AIOKafkaProducer:
    """The producer of a partition's transactions, not started; its id is the same in each restoration."""
    return make_producer(
        cluster,
        **_SIZES,
        transactional_id=f"{RESTORING_WRITER}{part[0]}-{part[1]}",
        transaction_timeout_ms=_TRANSACTION_MS,
    )


class _BatchSender:
    """Sends records to one partition in order, in batches; each must come to lie where it is expected."""

    def __init__(self, producer: AIOKafkaProducer, part: Part) -> None:
        self._producer = producer
        self._part = part
        self._batch = producer.create_batch()
        self._begins: int | None = None
        self._sent: list[tuple[int | None, asyncio.Future[Any]]] = []

    async def add(self, record: StoredRecord, offset: int | None = None) -> None:
        """Send a record. `offset`: where it must come to lie; None: anywhere."""
        if self._batch.size() >= _BATCH_BYTES or not self._append(record, offset):
            await self._send()
            if not self._append(record, offset):
                raise ArchiveDamaged(
                    f"{record.topic}:{record.partition}:{record.offset}: too large to be sent"
                )

    async def flush(self) -> None:
        """Wait until all that was added lies on the broker."""
        await self._send()
        for expected, sent in self._sent:
            done = await sent
            if expected is not None and done.offset != expected:
                raise KafkaTopicError(
                    f"{self._part[0]}:{self._part[1]}: a record of offset {expected} came to lie at "
                    f"{done.offset}: does another client write there? Stop it, delete the topics, begin anew"
                )
        self._sent.clear()

    def _append(self, record: StoredRecord, offset: int | None) -> bool:
        begins = offset if not self._batch.record_count() else self._begins
        added = self._batch.append(
            key=record.key, value=record.value, timestamp=record.timestamp_ms, headers=list(record.headers)
        )
        if added is not None:
            self._begins = begins
        return added is not None

    async def _send(self) -> None:
        if self._batch.record_count():
            topic, partition = self._part
            sent = await self._producer.send_batch(self._batch, topic, partition=partition)
            self._sent.append((self._begins, sent))
            self._batch = self._producer.create_batch()
            if len(self._sent) > _MOST_SENT:
                await asyncio.shield(self._sent[-_MOST_SENT][1])


class _OffsetWriter:
    """Writes the records of a partition at their offsets, and fills the offsets between them.

    A short run of records goes in one transaction, whose marker takes the offset behind it. A long one would
    outlast the time that the broker gives a transaction, and one without an offset behind it has no room for
    a marker: these go without a transaction. Up to a short run is held in memory until that is clear.
    """

    def __init__(self, cluster: KafkaCluster, part: TopicPartition, asking: AIOKafkaConsumer) -> None:
        """`asking`: reads uncommitted, for ends."""
        self._part = part
        self._asking = asking
        self._filling = _build_filling(cluster, part)
        self._plain = make_producer(cluster, **_SIZES)
        self._next = 0
        self._run: list[StoredRecord] = []
        self._run_bytes = 0
        self._sender: _BatchSender | None = None
        self.records = 0
        self.filled = 0

    async def start(self) -> None:
        """Connect. Raises KafkaError."""
        for buffer in (self._filling, self._plain):
            await buffer.start()

    async def stop(self) -> None:
        """Give up the connections."""
        for buffer in (self._filling, self._plain):
            await buffer.stop()

    async def write(self, record: StoredRecord) -> None:
        """Write the next record, of a higher offset than the one before."""
        if record.offset > self._next + len(self._run):
            await self._reach(record.offset)
        self.records += 1
        if self._sender is not None:
            await self._send_plainly(record)
            return
        self._run.append(record)
        self._run_bytes += len(record.key or b"") + len(record.value or b"")
        if len(self._run) >= MOST_RUN_RECORDS or self._run_bytes >= MOST_RUN_BYTES:
            await self._send_run_plainly()

    async def append(self, record: StoredRecord) -> None:
        """Write a record at the next offset, wherever it lay."""
        await self._send_plainly(record)
        self.records += 1

    async def finish(self, end: int) -> None:
        """Write what is left, up to the offset that the partition must reach."""
        await self._reach(end)
        await self._await_markers()

    async def _send_plainly(self, record: StoredRecord) -> None:
        if self._sender is None:
            await self._await_markers()
            self._sender = _BatchSender(self._plain, self._part)
        await self._sender.add(record, self._next)
        self._next += 1

    async def _send_run_plainly(self) -> None:
        for record in self._run:
            await self._send_plainly(record)
        self._run, self._run_bytes = [], 0

    async def _send_run_in_transaction(self) -> None:
        await self._filling.begin_transaction()
        sender = _BatchSender(self._filling, self._part)
        for record in self._run:
            await sender.add(record, record.offset)
        await sender.flush()
        await self._filling.commit_transaction()
        self._next += len(self._run) + 1
        self._run, self._run_bytes = [], 0

    async def _await_markers(self) -> None:
        """A transaction's end is answered before its markers are written: wait until they lie there."""
        async with asyncio.timeout(_MARKERS_S):
            while (await self._asking.end_offsets([self._part]))[self._part] < self._next:  # noqa: ASYNC110 - a broker tells nobody
                await asyncio.sleep(_POLL_S)

    async def _reach(self, offset: int) -> None:
        """End the run before, and fill what is missing up to this offset."""
        if self._run and self._next + len(self._run) < offset:
            await self._send_run_in_transaction()
        else:
            await self._send_run_plainly()
        if self._sender is not None:
            await self._sender.flush()
            self._sender = None
        while self._next < offset:
            await self._fill(min(offset - self._next, _FILLED_AT_ONCE))

    async def _fill(self, count: int) -> None:
        """Take offsets with a transaction that is rolled back: its marker takes the last of them."""
        filling = self._filling
        await filling.begin_transaction()
        filling._txn_manager.maybe_add_partition_to_txn(self._part)  # noqa: SLF001 - aiokafka has no other way to a marker without a record
        filler = StoredRecord(self._part.topic, self._part.partition, 0, 0, _FILLER, None, ())
        sender = _BatchSender(filling, self._part)
        for offset in range(self._next, self._next + count - 1):
            await sender.add(filler, offset)
        await sender.flush()
        await (filling.abort_transaction() if count > 1 else filling.commit_transaction())
        self._next += count
        self.filled += count
