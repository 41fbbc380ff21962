"""Destroying and rewrapping keys on the broker: records, and a read-back that waits until they have worked.

A tombstone destroys nothing: the record before it lies there until the broker compacts its segment, and that
begins only when a later segment has begun. So records that say nothing are written until the old segment is
closed, and the topic is read, as it lies, until no record of these keys has a value. A consumer is answered
by the partition's leader alone. Its followers compact by themselves, within the bound that the topic's
configuration sets; where there are some, that time is waited for too.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from typing import TYPE_CHECKING, NamedTuple

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from sluice.adapters.kafka.kafka_publish import publish
from sluice.adapters.kafka.kafka_read import open_admin, open_reader
from sluice.client.kafka_writing import Outgoing
from sluice.client.key_records import ROLL, LyingKey, read_lying, read_wrapped_key
from sluice_topics.records.subject_keys import WrappedKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.kafka_reading import Isolation

_LEAST_PAUSE_S = 0.2
_LOOK_S = 2.0
"""Between two looks at the topic while the broker has not compacted it."""
_CLEANER_S = 30.0
"""By which a broker may be later than the bound of the topic: its cleaner sleeps 15 s between two rounds."""


class KeyBounds(NamedTuple):
    """What the topic's configuration on the broker says: the bounds in s, and how many brokers have it."""

    segment_s: float
    compaction_s: float
    delete_s: float
    replicas: int

    @property
    def longest_s(self) -> float:
        """Until every broker that works has compacted a record, counted from its tombstone."""
        return self.segment_s + self.compaction_s + self.delete_s + _CLEANER_S


class KeyRemains(NamedTuple):
    """What is left of some keys. `stored`: ids with a record on the broker that holds the wrapped key;
    `left_s`: how long followers may still have one, 0 where there are none, or not any more."""

    stored: frozenset[str]
    left_s: float

    @property
    def is_destroyed(self) -> bool:
        """Whether nothing is left."""
        return not self.stored and self.left_s <= 0


class KeyTopic:
    """The topic of keys, as whoever erases sees it. Each method raises UnknownTopics and KafkaUnreachable."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        """`topic`: its real name."""
        self._cluster = cluster
        self._topic = topic

    async def read(self) -> AsyncIterator[tuple[str, bytes | None]]:
        """The message key and value of each record that lies there, in their order."""
        isolation: Isolation = "read_uncommitted"
        async with open_reader(self._cluster, [self._topic], "beginning", isolation=isolation) as reader:
            async for batch in reader.to_end():
                for record in batch:
                    yield (record.key or b"").decode("utf-8", "replace"), record.value

    async def find(self, names: Collection[bytes]) -> dict[str, bytes]:
        """The ids of all keys of these persons that lie there, erased ones that are not compacted yet too,
        each with the name by which it was found. `names`: what stands for a person (`KeyWrapper.index`)."""
        return {
            key_id: owner
            for key_id, key in (await self.read_keys()).items()
            if (owner := b64decode(key.subject)) in names
        }

    async def read_keys(self, key_ids: Collection[str] | None = None) -> dict[str, WrappedKey]:
        """The first record of each key that lies there, of all or of these: as whoever seals takes it. A
        later one under its id says what somebody else says of it."""
        first = dict[str, WrappedKey]()
        async for key_id, value in self.read():
            if value is not None and key_id not in first and (key_ids is None or key_id in key_ids):
                key = read_wrapped_key(key_id, value)
                if key is not None:
                    first[key_id] = key
        return first

    async def read_lying(self) -> dict[str, list[LyingKey]]:
        """The records of each key that no tombstone erases, in their order, unchecked."""
        lying, erased = dict[str, list[LyingKey]](), set[str]()
        async for key_id, value in self.read():
            if value is None:
                erased.add(key_id)
            elif (key := read_wrapped_key(key_id, value)) is not None:
                lying.setdefault(key_id, []).append(read_lying(key))
        return {key_id: records for key_id, records in lying.items() if key_id not in erased}

    async def list_erased(self, key_ids: Collection[str]) -> frozenset[str]:
        """Those of which a tombstone lies there."""
        return frozenset(
            [key_id async for key_id, value in self.read() if value is None and key_id in key_ids]
        )

    async def list_wrapped(self, masters: Collection[str]) -> frozenset[str]:
        """The keys of which a record lies there that one of these master keys wrapped."""
        wrapped = set[str]()
        async for key_id, value in self.read():
            key = None if value is None else read_wrapped_key(key_id, value)
            if key is not None and key.wrapped_by in masters:
                wrapped.add(key_id)
        return frozenset(wrapped)

    async def list_stored(self, key_ids: Collection[str]) -> frozenset[str]:
        """Those of which a record with a value lies there."""
        return frozenset(
            [key_id async for key_id, value in self.read() if value is not None and key_id in key_ids]
        )

    async def erase(self, key_ids: Sequence[str]) -> float:
        """Write the tombstones; when that was done, in s since the epoch."""
        await self._write([(key_id, None) for key_id in key_ids])
        return time.time()

    async def replace(self, records: Mapping[str, bytes]) -> float:
        """Write records that take the place of those of the same keys; when that was done, in s since the
        epoch."""
        await self._write(list(records.items()))
        return time.time()

    async def read_bounds(self) -> KeyBounds:
        """How soon the broker compacts."""
        async with open_admin(self._cluster) as admin:
            (described,) = await admin.describe_topics([self._topic])
            (answer, *_) = await admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, self._topic)]
            )
        config: Mapping[str, str] = {
            key: value or "0" for *_, entries in answer.resources for key, value, *_ in entries
        }
        return KeyBounds(
            segment_s=int(config["segment.ms"]) / 1000,
            compaction_s=int(config["max.compaction.lag.ms"]) / 1000,
            delete_s=int(config["file.delete.delay.ms"]) / 1000,
            replicas=len(described["partitions"][0]["replicas"]),
        )

    async def await_destruction(
        self,
        key_ids: Collection[str],
        erased_s: float,
        wait_s: float,
        report: Callable[[KeyRemains], None] = lambda _: None,
    ) -> KeyRemains:
        """Wait until nothing is left of these keys, `wait_s` at most, and say what is. `erased_s`: when their
        tombstones were written; `report` gets each look."""
        return await self._await_none(lambda: self.list_stored(key_ids), erased_s, wait_s, report)

    async def await_rewrapped(
        self,
        masters: Collection[str],
        lost: Collection[str],
        erased: Collection[str],
        replaced_s: float,
        wait_s: float,
        report: Callable[[KeyRemains], None] = lambda _: None,
    ) -> KeyRemains:
        """The same until no record lies there that one of these master keys wrapped, but those of `lost`, and
        none of a key of `erased`."""

        async def look() -> frozenset[str]:
            wrapped = (await self.list_wrapped(masters)).difference(lost)
            return wrapped | (await self.list_stored(erased) if erased else frozenset())

        return await self._await_none(look, replaced_s, wait_s, report)

    async def _await_none(
        self,
        look: Callable[[], Awaitable[frozenset[str]]],
        written_s: float,
        wait_s: float,
        report: Callable[[KeyRemains], None],
    ) -> KeyRemains:
        bounds, ends_s = await self.read_bounds(), time.monotonic() + wait_s
        pause_s = min(_LOOK_S, max(bounds.segment_s / 2, _LEAST_PAUSE_S))
        while True:
            began_s = time.monotonic()
            stored = await look()
            pause_s = max(pause_s, 2 * (time.monotonic() - began_s))  # a large topic is not read all the time
            left_s = written_s + bounds.longest_s - time.time() if bounds.replicas > 1 else 0.0
            remains = KeyRemains(stored, max(0.0, left_s))
            report(remains)
            if remains.is_destroyed:
                await asyncio.sleep(bounds.delete_s)  # until the file that was replaced is deleted
                return remains
            if time.monotonic() >= ends_s:
                return remains
            await self._write([(ROLL.decode(), None)])
            await asyncio.sleep(pause_s)

    async def _write(self, records: Sequence[tuple[str, bytes | None]]) -> None:
        """Records of these keys; None: tombstones."""
        outgoing = [Outgoing(key_id.encode(), value) for key_id, value in records]
        await publish(self._cluster, self._topic, outgoing, partition=0)
