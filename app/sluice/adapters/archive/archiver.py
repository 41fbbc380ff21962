"""Follows an installation's topics on a broker and keeps what is committed there in an archive.

It has no consumer group: the archive's manifest is the truth of how far it came. What it reads goes into
segments, one for each partition, which are written together with an entry of the manifest. So a kill at any
moment leaves nothing out and nothing twice: what no entry names is read again.

A partition's segment is cut when it is large enough, the largest ones when all take too much memory, each
with the inputs of its partition number; and all of them each `age_s`. That last entry also says up to where
the workers had decided: the group's offsets are asked for first, and the cut waits until all that lay on the
broker then is read. Its clock is its own, so that no other cut delays it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
    OffsetOutOfRangeError,
)

from sluice.adapters.archive.archive_store import StoreError
from sluice.adapters.archive.manifest import (
    MOST_SEGMENTS_OF_ENTRY,
    NO_TRUST,
    ArchiveRefused,
    ManifestEntry,
    read_manifest,
    write_entry,
)
from sluice.adapters.archive.segment import SegmentBuilder
from sluice.adapters.kafka.kafka_read import (
    fetch_ends,
    list_partitions,
    make_unreachable,
    open_admin,
    read_stored,
)
from sluice.client.kafka_reading import open_consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient

    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.adapters.archive.manifest import ArchiveTrust, Manifest
    from sluice.adapters.archive.segment import Segment
    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.core.registry.keys import SigningKey
    from sluice_topics.catalog import Topic

log = logging.getLogger(__name__)
T = TypeVar("T")

_POLL_MS = 200
_TAKEN_AT_ONCE = 2000
_FETCH_BYTES = 16 * 1024 * 1024
_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 30.0
_PARALLEL_PUTS = 8
_COORDINATOR_S = 20.0
_NO_COORDINATOR = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """`segment_bytes`: of the records of a segment before compression; `age_s`: for how long a record that
    was read waits for its segment; `held_bytes`: memory for segments that are not written yet;
    `store_wait_s`: for how long a store that does not answer is asked again."""

    segment_bytes: int = 16 * 1024 * 1024
    age_s: float = 300.0
    held_bytes: int = 128 * 1024 * 1024
    store_wait_s: float = 300.0


@dataclass(frozen=True, slots=True)
class ArchivedInstallation:
    """What is archived. `installation`, `prefix` and `app_id` as in the settings (the app is the workers'
    group); `topics`: of the catalog, by real name."""

    installation: str
    prefix: str
    app_id: str
    topics: Mapping[str, Topic]

    @property
    def named(self) -> tuple[str, str, str]:
        """As the manifest's entries say it."""
        return self.installation, self.prefix, self.app_id


class ArchiveObserver(Protocol):
    """Is told how the archiver does. It must return at once and not raise."""

    def note_entry(self, records: int) -> None:
        """An entry with so many records was added."""

    def note_whole(self, at_ms: int, *, is_start: bool) -> None:
        """Everything that lay on the broker then is archived. `is_start`: it begins, and the archive's last
        entry is of that time; 0: it has none."""


@dataclass(frozen=True, slots=True)
class ArchiverProofs:
    """By what the archiver's own work is known again. `trust`: what it goes on behind; `key`: signs its
    entries, and is one of `trust.keys`; `note`: keeps the last entry's number and SHA-256 elsewhere than in
    the store, and may raise StoreError."""

    trust: ArchiveTrust = NO_TRUST
    key: SigningKey | None = None
    note: Callable[[int, str], None] | None = None


NO_PROOFS = ArchiverProofs()


class Archiver:
    """Run it with `run`. It holds some 256 KB for each partition that has something new, and up to
    `held_bytes` of what it packed."""

    def __init__(
        self,
        cluster: KafkaCluster,
        of: ArchivedInstallation,
        store: ArchiveStore,
        limits: ArchiveLimits,
        read_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        proofs: ArchiverProofs = NO_PROOFS,
    ) -> None:
        """`read_ms`: the time of day in ms."""
        self._cluster = cluster
        self.of = of
        self._store = store
        self.limits = limits
        self._read_ms = read_ms
        self._trust, self._key, self._note = proofs.trust, proofs.key, proofs.note
        self._builders: dict[TopicPartition, SegmentBuilder] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._decided_at = time.monotonic()
        self._awaited: tuple[dict[TopicPartition, int], dict[str, dict[str, int]]] | None = None
        self._awaited_ms = 0
        self._stopped = False
        self.observer: ArchiveObserver | None = None
        """Is told of what is done from now on."""
        self.written = 0
        """Records in the archive's entries of this run."""

    def stop(self) -> None:
        """Write what is read, then return from `run`."""
        self._stopped = True

    async def run(self, *, once: bool = False) -> Manifest:
        """Archive until stopped; `once`: until everything that lies on the broker now is archived. Returns
        where the archive ends then: of each partition the last segment alone.

        Raises ArchiveRefused if the archive is damaged, of another installation or another cluster, or if
        another archiver writes; StoreError; KafkaUnreachable and UnknownTopics.
        """
        manifest = await self._ask_store(lambda: read_manifest(self._store, self._trust, ends_only=True))
        self._require_usable(manifest)
        if self.observer is not None:
            self.observer.note_whole(manifest.at_ms, is_start=True)
        parts = await list_partitions(self._cluster, list(self.of.topics))
        try:
            async with (
                open_consumer(self._cluster, "read_uncommitted") as asking,
                open_consumer(
                    self._cluster, auto_offset_reset="none", fetch_max_bytes=_FETCH_BYTES
                ) as consumer,
            ):
                await self._seek(consumer, asking, parts, manifest)
                await self._follow(consumer, asking, manifest, once=once)
        except OffsetOutOfRangeError as error:
            where = ", ".join(f"{part.topic}:{part.partition}" for part in error.args[0])
            raise ArchiveRefused(
                f"{where}: the broker deleted records while they were to be archived; start again, and the "
                "manifest will say which offsets are missing"
            ) from error
        except KafkaError as error:
            raise make_unreachable(self._cluster, error) from error
        return manifest

    def _require_usable(self, manifest: Manifest) -> None:
        if manifest.installation_of not in (None, self.of.named):
            raise ArchiveRefused(f"{self._store.url} is the archive of another installation")
        number, digest = manifest.number, manifest.digest
        bad = [finding for finding in manifest.findings if finding.code != "offsets_missing"]
        if [finding.code for finding in bad] == ["manifest_unsigned"]:
            if self._trust.noted != (number, digest):
                raise ArchiveRefused(
                    f"{self._store.url} is not signed up to entry {number}, so anybody may have written it: "
                    f"if it is yours, pass --noted {number}:{digest} once, or begin a new archive"
                )
            bad = []
        if manifest.signed and self._key is None:
            raise ArchiveRefused(
                f"{self._store.url} has signed entries: set archive.signing_key, or begin a new archive"
            )
        if bad:
            raise ArchiveRefused(
                f"{self._store.url} is damaged, so nothing is added to it: {bad[0].where}: {bad[0].message} "
                "(sluice archive check names all)"
            )

    async def _seek(
        self,
        consumer: AIOKafkaConsumer,
        asking: AIOKafkaConsumer,
        parts: Sequence[TopicPartition],
        manifest: Manifest,
    ) -> None:
        """Go to where the archive ends in each partition."""
        ends = await fetch_ends(asking, parts)
        begins = await asking.beginning_offsets(parts)
        consumer.assign(parts)
        await asyncio.sleep(0)  # its own tasks run before anything is asked of it: see `open_reader`
        for part in parts:
            archived = manifest.find_end((part.topic, part.partition))
            start = max(begins[part], archived or 0)
            if archived is not None and archived > ends[part]:
                raise ArchiveRefused(
                    f"{part.topic}:{part.partition} ends at offset {ends[part]} on {self._cluster}, and in "
                    f"the archive at {archived}: the topic was made anew, or this is another cluster"
                )
            is_compacted = self.of.topics[part.topic].cleanup != "delete"
            if archived is not None and start > archived and not is_compacted:
                log.error(
                    "%s:%d: the broker deleted offsets %d to %d before they were archived",
                    *(part.topic, part.partition, archived, start - 1),
                )
            consumer.seek(part, start)
            self._ends[part] = archived if archived is not None and is_compacted else start

    async def _follow(
        self, consumer: AIOKafkaConsumer, asking: AIOKafkaConsumer, manifest: Manifest, *, once: bool
    ) -> None:
        if once:
            await self._await_present(asking)
        while True:
            batch = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_TAKEN_AT_ONCE)
            for part, messages in batch.items():
                self._take(part, [read_stored(message) for message in messages])
            if await self._is_awaited_read(consumer):
                assert self._awaited is not None  # noqa: S101 - asked above
                await self._cut(consumer, manifest, list(self._builders), self._awaited[1])
                self._awaited = None
                if self.observer is not None:
                    self.observer.note_whole(self._awaited_ms, is_start=False)
                self._decided_at = time.monotonic()
                if once:
                    return
            elif parts := self._choose_parts():
                await self._cut(consumer, manifest, parts, None)
            if self._stopped:
                return
            if self._awaited is None and time.monotonic() - self._decided_at >= self.limits.age_s:
                await self._await_present(asking)

    def _take(self, part: TopicPartition, records: Sequence[StoredRecord]) -> None:
        builder = self._builders.get(part)
        if builder is None:
            has_head = self.of.topics[part.topic].ledger
            builder = SegmentBuilder(part.topic, part.partition, self._ends[part], has_head=has_head)
            self._builders[part] = builder
        for record in records:
            builder.add(record)

    def _choose_parts(self) -> list[TopicPartition]:
        """Whose segments are to be written before their time."""
        if self._stopped:
            return list(self._builders)
        if self._count_held_bytes() > self.limits.held_bytes:
            return self._add_inputs(self._choose_largest())
        full = [
            part for part, builder in self._builders.items() if builder.raw_bytes >= self.limits.segment_bytes
        ]
        return self._add_inputs(full)

    def _add_inputs(self, parts: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The partitions, and where workers wrote one of them also what they had read: state and ledger
        alone, without the inputs of their partition number and signed policy, could not be used."""
        topics = self.of.topics
        numbers = {part.partition for part in parts if topics[part.topic].direction in {"out", "internal"}}
        chosen = set(parts)
        added = [
            part
            for part in self._builders
            if part not in chosen and numbers and _is_read_by(topics[part.topic], part.partition, numbers)
        ]
        return [*parts, *added]

    def _choose_largest(self) -> list[TopicPartition]:
        """The largest segments, without which the others take half of `held_bytes`; of equal ones those that
        were begun first."""
        chosen, held_bytes = [], self._count_held_bytes()
        for part, builder in sorted(self._builders.items(), key=lambda pair: -pair[1].held_bytes):
            if held_bytes <= self.limits.held_bytes // 2:
                break
            chosen.append(part)
            held_bytes -= builder.held_bytes
        return chosen

    def _count_held_bytes(self) -> int:
        return sum(builder.held_bytes for builder in self._builders.values())

    async def _await_present(self, asking: AIOKafkaConsumer) -> None:
        """Note what the group has decided, and then where all partitions end: what is decided lies before."""
        decided = await self._fetch_decided()
        self._awaited_ms = self._read_ms()
        self._awaited = await asking.end_offsets(list(self._ends)), decided

    async def _fetch_decided(self) -> dict[str, dict[str, int]]:
        async with open_admin(self._cluster) as admin:
            group_offsets = await self._list_group_offsets(admin)
        decided: dict[str, dict[str, int]] = {}
        for part, committed in group_offsets.items():
            if committed.offset > 0 and part in self._ends:
                decided.setdefault(part.topic, {})[str(part.partition)] = committed.offset
        return decided

    async def _list_group_offsets(self, admin: AIOKafkaAdminClient) -> Mapping[TopicPartition, Any]:
        """The group's; a young broker takes a moment until any group has a coordinator."""
        give_up_at = time.monotonic() + _COORDINATOR_S
        while True:
            try:
                offsets: Mapping[TopicPartition, Any] = await admin.list_consumer_group_offsets(
                    self.of.app_id
                )
            except _NO_COORDINATOR:
                if time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(_FIRST_RETRY_S)
            else:
                return offsets

    async def _is_awaited_read(self, consumer: AIOKafkaConsumer) -> bool:
        if self._awaited is None:
            return False
        ends = self._awaited[0]
        return all([await consumer.position(part) >= end for part, end in ends.items()])

    async def _cut(
        self,
        consumer: AIOKafkaConsumer,
        manifest: Manifest,
        parts: Sequence[TopicPartition],
        decided: dict[str, dict[str, int]] | None,
    ) -> None:
        """Write the segments of these partitions, then the entry that names them."""
        if not parts and (not decided or _is_known(manifest, decided)):
            return
        for at in range(0, max(1, len(parts)), MOST_SEGMENTS_OF_ENTRY):
            some = parts[at : at + MOST_SEGMENTS_OF_ENTRY]
            is_last = at + MOST_SEGMENTS_OF_ENTRY >= len(parts)
            segments = await self._write_segments(consumer, some)
            entry = ManifestEntry(
                number=manifest.number + 1,
                previous=manifest.digest,
                installation=self.of.installation,
                prefix=self.of.prefix,
                app_id=self.of.app_id,
                at_ms=self._read_ms(),
                segments=tuple(segments),
                decided=decided if is_last else None,
            )
            signed = entry if self._key is None else entry.sign(self._key)
            await self._ask_store(partial(write_entry, self._store, manifest, signed))
            if self._note is not None:
                await self._ask_store(partial(self._note, manifest.number, manifest.digest))
            for part, segment in zip(some, segments, strict=True):
                self._ends[part] = segment.end
                self.written += segment.count
            if self.observer is not None:
                self.observer.note_entry(sum(segment.count for segment in segments))
        log.info("entry %d of the archive: %d segments", manifest.number, len(parts))

    async def _write_segments(
        self, consumer: AIOKafkaConsumer, parts: Sequence[TopicPartition]
    ) -> list[Segment]:
        bound = asyncio.Semaphore(_PARALLEL_PUTS)

        async def write(part: TopicPartition) -> Segment:
            end = await consumer.position(part)
            async with bound:
                segment, data = self._builders.pop(part).close(end)
                await self._ask_store(lambda: self._store.put(segment.name, data))
                return segment

        return list(await asyncio.gather(*(write(part) for part in parts)))

    async def _ask_store(self, ask: Callable[[], T]) -> T:
        """Ask in a thread, again while the store is away. Raises StoreError after `store_wait_s`."""
        give_up_at, pause_s = time.monotonic() + self.limits.store_wait_s, _FIRST_RETRY_S
        while True:
            try:
                return await asyncio.to_thread(ask)
            except StoreError as away:
                if time.monotonic() + pause_s > give_up_at or self._stopped:
                    raise
                log.warning("waiting for the archive's store: %s", away)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_RETRY_S)


def _is_read_by(topic: Topic, number: int, numbers: set[int]) -> bool:
    """Whether the workers of these partition numbers decide what lies in a topic's partition."""
    if topic.direction == "control":
        return True
    return topic.cleanup == "delete" and topic.direction != "out" and number in numbers


def _is_known(manifest: Manifest, decided: dict[str, dict[str, int]]) -> bool:
    return all(
        manifest.decided.get((topic, int(number))) == offset
        for topic, offsets in decided.items()
        for number, offset in offsets.items()
    )
