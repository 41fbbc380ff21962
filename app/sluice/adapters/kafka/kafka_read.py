"""Reading topics as committed: bounded (from the beginning to the end seen at the start), or following.

The end is the high watermark, not the last stable offset: a commit is answered before its markers are
written, so the stable offset may lie below what was committed already. A transaction that is open at the
start is waited for, at most its time-out.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from sluice.client.kafka_connection import build_client_arguments, is_secured
from sluice.client.kafka_login import find_login_fault
from sluice.client.kafka_reading import Isolation, open_consumer, read_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster

Start = Literal["beginning", "end"]

_POLL_MS = 200
_REQUEST_TIMEOUT_MS = 20_000


class KafkaUnreachable(Exception):
    """The broker did not answer, or not with what was asked; the message names it and the cause."""


class KafkaRefused(KafkaUnreachable):
    """The broker answered, and did not let this user in, or not do this: asking again does not help."""


class UnknownTopics(Exception):
    """Some of the topics do not exist. `names` are those; `present` are all that do. Where `must_log_in`, the
    topics may be hidden from this user too."""

    def __init__(self, names: Sequence[str], present: Sequence[str], *, must_log_in: bool = False) -> None:
        hidden = ", or none that this user may see" if must_log_in else ""
        super().__init__(f"no such topic on the broker{hidden}: {', '.join(names)}")
        self.names = tuple(names)
        self.present = tuple(present)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the broker keeps it; `timestamp_ms` is set by broker or producer, as the topic says."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def make_unreachable(cluster: KafkaCluster, error: BaseException) -> KafkaUnreachable:
    """The error for a call that failed: KafkaRefused where an ACL is missing."""
    if isinstance(error, _NOT_ALLOWED):
        what = str(error.args[0]) if error.args else ""
        return KafkaRefused(f"{cluster}: {_NAMES[type(error)]} not allowed to this user: {what}".rstrip(": "))
    return KafkaUnreachable(f"{cluster}: {str(error) or 'no answer in time'}")


async def require_login(cluster: KafkaCluster) -> None:
    """Return when a client can log in, at once for a plain connection. Raises KafkaRefused where the login
    or a certificate is refused, KafkaUnreachable where asking again may help."""
    fault = await find_login_fault(cluster)
    if fault is not None:
        raise (KafkaRefused if fault.is_final else KafkaUnreachable)(f"{cluster}: {fault.message}")


@asynccontextmanager
async def open_admin(cluster: KafkaCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    """Raises KafkaUnreachable, from within its block too."""
    await require_login(cluster)
    admin = AIOKafkaAdminClient(**build_client_arguments(cluster), request_timeout_ms=_REQUEST_TIMEOUT_MS)
    try:
        await admin.start()
        yield admin
    except (KafkaError, TimeoutError) as error:
        raise make_unreachable(cluster, error) from error
    finally:
        await admin.close()


_NAMES: dict[type[BaseException], str] = {
    TopicAuthorizationFailedError: "a topic is",
    GroupAuthorizationFailedError: "a consumer group is",
    ClusterAuthorizationFailedError: "a request on the cluster is",
    TransactionalIdAuthorizationFailed: "a transactional id is",
}
_NOT_ALLOWED = tuple(_NAMES)


class TopicReader:
    """Assigned to every partition of some topics. Made by `open_reader`."""

    def __init__(
        self, consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int], cluster: KafkaCluster
    ) -> None:
        self._consumer = consumer
        self._cluster = cluster
        self._ends = ends

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset at which each partition ended when the reader was opened."""
        return dict(self._ends)

    async def to_end(self) -> AsyncIterator[list[StoredRecord]]:
        """Batches up to the ends seen when the reader was opened, each partition in offset order."""
        async for batch in read_to(self._consumer, self._ends):
            yield [read_stored(message) for message in batch]

    async def read_part(
        self, topic: str, number: int, until: int | None = None
    ) -> AsyncIterator[list[StoredRecord]]:
        """Batches of one partition as `to_end`, before the offset `until` too; the others are left where they
        are."""
        part = TopicPartition(topic, number)
        end = self._ends[part] if until is None else min(until, self._ends[part])
        async for batch in read_to(self._consumer, {part: end}):
            yield [read_stored(message) for message in batch]

    async def has_passed_ends(self) -> bool:
        """Whether all was read that lay there when the reader was opened."""
        return all([await self._consumer.position(part) >= end for part, end in self._ends.items()])

    async def read_to_time(self, until_ms: int) -> AsyncIterator[list[StoredRecord]]:
        """Batches of what was written before this time, until every partition has passed it; one that is to
        come is waited for."""
        while time.time_ns() // 1_000_000 < until_ms:
            yield [record for record in await self._poll(_POLL_MS) if record.timestamp_ms < until_ms]
        async with open_consumer(self._cluster, "read_uncommitted") as asking:
            ends = await _fetch_starts(asking, await fetch_ends(asking, list(self._ends)), until_ms)
        async for batch in read_to(self._consumer, ends):
            yield [read_stored(message) for message in batch if message.timestamp < until_ms]

    async def follow(self, idle_ms: int | None) -> AsyncIterator[list[StoredRecord]]:
        """Batches as they come, until none came for `idle_ms` (None: for ever); after `to_end` from there."""
        self._consumer.resume(*self._ends)
        while True:
            batch = await self._poll(_POLL_MS if idle_ms is None else idle_ms)
            if not batch and idle_ms is not None:
                return
            yield batch

    async def _poll(self, timeout_ms: int) -> list[StoredRecord]:
        fetched = await self._consumer.getmany(timeout_ms=timeout_ms)
        return [read_stored(message) for messages in fetched.values() for message in messages]


@asynccontextmanager
async def open_reader(
    cluster: KafkaCluster,
    topics: Sequence[str],
    start: Start | int,
    number: int | None = None,
    isolation: Isolation = "read_committed",
) -> AsyncIterator[TopicReader]:
    """A reader whose positions are settled when it is handed over. A `start` in ms since the epoch is the
    first record of each partition that was written then or later. `number`: of one partition of each topic;
    None: all.

    Raises UnknownTopics, and KafkaUnreachable here or from any of the reader's methods.
    """
    listed = await list_partitions(cluster, topics)
    partitions = [part for part in listed if number in (None, part.partition)]
    async with open_partitions(cluster, partitions, start, isolation) as reader:
        yield reader


@asynccontextmanager
async def open_partitions(
    cluster: KafkaCluster,
    partitions: Sequence[TopicPartition],
    start: Start | int,
    isolation: Isolation = "read_committed",
) -> AsyncIterator[TopicReader]:
    """A reader of these partitions, one at least. Takes `start` and raises as `open_reader`."""
    try:
        async with open_consumer(cluster, "read_uncommitted") as asking:
            ends = await fetch_ends(asking, partitions)
            starts = await _fetch_starts(asking, ends, start) if isinstance(start, int) else {}
        async with open_consumer(cluster, isolation) as consumer:
            consumer.assign(partitions)
            # One whose own tasks have never run when it is closed, because nothing was to be read, fails.
            await asyncio.sleep(0)
            if isinstance(start, str):
                await (consumer.seek_to_beginning if start == "beginning" else consumer.seek_to_end)(
                    *partitions
                )
            for part, offset in starts.items():
                consumer.seek(part, offset)
            yield TopicReader(consumer, ends, cluster)
    except KafkaError as error:
        raise make_unreachable(cluster, error) from error


async def fetch_ends(
    asking: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offset behind the last record of each partition. Raises KafkaError.

    They are assigned, and paused, since nothing is to be fetched: the client then asks for all their topics
    at once. Of topics that are not assigned it learns one after the other, with 100 ms between two.
    """
    asking.assign(partitions)
    asking.pause(*partitions)
    ends: dict[TopicPartition, int] = await asking.end_offsets(partitions)
    return ends


async def _fetch_starts(
    asking: AIOKafkaConsumer, ends: dict[TopicPartition, int], since_ms: int
) -> dict[TopicPartition, int]:
    """Fetch the offset of each partition's first record of that time or later; its end if there is none."""
    offsets = await asking.offsets_for_times(dict.fromkeys(ends, since_ms))
    return {part: end if offsets[part] is None else offsets[part].offset for part, end in ends.items()}


async def list_partitions(cluster: KafkaCluster, topics: Sequence[str]) -> list[TopicPartition]:
    """Every partition of the topics. Raises UnknownTopics and KafkaUnreachable."""
    async with open_admin(cluster) as admin:
        present = await admin.list_topics()
        if absent := [topic for topic in topics if topic not in present]:
            raise UnknownTopics(absent, sorted(present), must_log_in=is_secured(cluster))
        return list(_collect_partitions(await admin.describe_topics(list(topics))))


def _collect_partitions(described: Iterable[dict[str, Any]]) -> Iterable[TopicPartition]:
    for topic in described:
        for part in sorted(topic["partitions"], key=lambda each: int(each["partition"])):
            yield TopicPartition(topic["topic"], part["partition"])


def read_stored(message: Any) -> StoredRecord:
    """A Kafka message as it lies."""
    return StoredRecord(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        tuple(message.headers),
    )
