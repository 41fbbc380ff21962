"""The keys of persons on their topic: one for each, key by whoever has the master key.

The topic has one partition, so its records have one order. The first key of a subject there that is not
erased is its key: of two processes that make one at once, both read on and take the first. A tombstone erases
a key; then the subject's next input makes another.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from sluice.client.kafka_connection import build_client_arguments
from sluice.client.kafka_reading import connect_consumer
from sluice.client.kafka_writing import KafkaWriter, Outgoing
from sluice.client.key_records import digest_person, read_lying, read_wrapped_key, write_wrapped_key
from sluice.secrets.key_wrapping import PersonKey, wrap_named
from sluice_topics.records.subject_keys import KEY_ID
from sluice_topics.sealing import ERASED, SECRET_BYTES, SubjectKey

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Sequence

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.key_records import LyingKey
    from sluice.secrets.key_wrapping import KeyWrapper
    from sluice_topics.sealing import Erased, Subject

log = logging.getLogger(__name__)

ID_BYTES = 16
POLL_MS = 200
RETRY_S = 1.0
MOST_OPENED = 65_536
"""Opened keys that a process holds; the others are opened again when they are asked for."""
MOST_ERASED = 65_536
"""Ids of erased keys that a process holds, and as many again that were no keys here."""
MOST_LYING = 4  # records of one key that are held: the first ones, and the newest


class _OpenedKey(NamedTuple):
    key: SubjectKey
    person: bytes


class BoundedIds:
    """The newest of some ids, at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: dict[str, None] = {}

    def __contains__(self, an_id: str) -> bool:
        """Whether it is one of them."""
        return an_id in self._ids

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ids)

    def add(self, an_id: str) -> None:
        """One more; where there are too many, the oldest goes."""
        self._ids[an_id] = None
        if len(self._ids) > self._most:
            del self._ids[next(iter(self._ids))]


class KeyUnavailable(Exception):
    """A subject's key could not be made or read; the message says why."""


class SubjectKeys:
    """The keys of one installation, followed. On one event loop."""

    def __init__(self, cluster: KafkaCluster, topic: str, wrapper: KeyWrapper) -> None:
        """`topic`: the real name of `gate.subject_keys`."""
        self._arguments = build_client_arguments(cluster)
        self._part = TopicPartition(topic, 0)
        self._wrapper = wrapper
        self._lying: dict[str, tuple[LyingKey, ...]] = {}
        self._subjects: dict[bytes, list[str]] = {}
        self._erased, self._unknown = BoundedIds(MOST_ERASED), BoundedIds(MOST_ERASED)
        self._opened: OrderedDict[str, _OpenedKey] = OrderedDict()
        self._consumer: AIOKafkaConsumer | None = None
        self._asking: AIOKafkaConsumer | None = None
        self._writer = KafkaWriter(self._arguments)
        self._following: asyncio.Task[None] | None = None
        self._reading, self._making = asyncio.Lock(), asyncio.Lock()
        self._reads = 0

    async def start(self) -> None:
        """Read the topic to its end, and follow it. Raises KafkaError; then no connection is left."""
        try:
            self._consumer = await self._connect()
            self._consumer.resume(self._part)
            self._asking = await self._connect()
            await self._read_to_end()
        except BaseException:
            await self.close()
            raise
        self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Give up the connections."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        for consumer in (self._consumer, self._asking):
            if consumer is not None:
                await consumer.stop()
        await self._writer.close()
        await self._wrapper.close()
        self._consumer = self._asking = self._following = None

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """An opened key, at once; None: `fetch` did not open it."""
        if self._is_erased(key_id):
            return ERASED
        opened = self._opened.get(key_id)
        if opened is None:
            return None
        self._opened.move_to_end(key_id)
        return opened.key

    async def fetch(self, key_ids: Collection[str]) -> None:
        """Open these keys, so that `find` has them. One that is not there yet is looked for at the topic's
        end, once: who sealed with a key had read it there. Raises KafkaError, and OSError of the wrapper."""
        wanted = [key_id for key_id in key_ids if self.find(key_id) is None]
        if any(key_id not in self._lying for key_id in wanted):
            await self._read_to_end()
        await self._open(wanted)

    async def choose(
        self, tenant: str, subject: Subject, erased: Container[tuple[str, str]] = ()
    ) -> SubjectKey:
        """The subject's key; if it has none, one is made. `erased`: tenants and ids of keys that are to be
        destroyed: nobody seals with one, also where its tombstone is not there yet, or not any more and
        somebody wrote it again. Raises KeyUnavailable, KafkaError, and OSError of the wrapper."""
        person = digest_person(tenant, subject)
        names = await self._wrapper.index(person)
        key = await self._find_first(person, names, erased)
        if key is None:
            async with self._making:
                await self._read_to_end()
                key = await self._find_first(person, names, erased)
                if key is None:
                    await self._make(tenant, person)
                    names = await self._wrapper.index(person)
                    key = await self._find_first(person, names, erased)
        if key is None:
            raise KeyUnavailable("the key that was made cannot be read back, or was erased at once")
        return key

    async def _find_first(
        self, person: bytes, names: Sequence[bytes], erased: Container[tuple[str, str]]
    ) -> SubjectKey | None:
        """The first key of a person that is not erased and opens: what does not is nobody's key, and a record
        that gives another's key this person's name does not make it this person's."""
        for name in names:
            key_ids = list(self._subjects.get(name, ()))
            await self._open(key_ids)
            for key_id in key_ids:
                opened = self._opened.get(key_id)
                if (
                    opened is not None
                    and opened.person == person
                    and (opened.key.tenant, key_id) not in erased
                ):
                    return opened.key
        return None

    async def _open(self, key_ids: Collection[str]) -> None:
        """Open these keys by the first of their records that opens; one that is erased meanwhile stays so."""
        lying = [
            (key_id, each)
            for key_id in key_ids
            if key_id not in self._opened
            for each in self._lying.get(key_id, ())
        ]
        keys = await self._wrapper.unwrap([each for _, each in lying]) if lying else []
        for (key_id, (owner, _)), key in zip(lying, keys, strict=True):
            if key is not None and key_id not in self._opened and key_id in self._lying:
                self._opened[key_id] = _OpenedKey(SubjectKey(key_id, key.secret, owner.tenant), key.person)
        for key_id in {key_id for key_id, _ in lying if key_id not in self._opened}:
            log.warning("the key %s was altered, is another one's, or its master key is not here", key_id)
        while len(self._opened) > MOST_OPENED:
            self._opened.popitem(last=False)

    async def _make(self, tenant: str, person: bytes) -> None:
        key_id, key = secrets.token_hex(ID_BYTES), PersonKey(secrets.token_bytes(SECRET_BYTES), person)
        ((owner, wrapped),) = await wrap_named(self._wrapper, [(key_id, tenant, key)])
        record = write_wrapped_key(owner, wrapped)
        await self._writer.write(self._part.topic, [Outgoing(key_id.encode(), record)], partition=0)
        await self._read_to_end()

    async def _connect(self) -> AIOKafkaConsumer:
        """One reads, and one asks for ends: a broker answers no question behind a fetch that waits."""
        return await connect_consumer(
            self._arguments, "read_uncommitted", parts=[self._part], fetch_max_wait_ms=POLL_MS
        )

    async def _read_to_end(self) -> None:
        """Read what lies there now. Who comes while another one reads waits for the next reading, and shares
        it with all who wait."""
        begun = self._reads
        async with self._reading:
            if self._reads >= begun + 2:
                return
            if self._consumer is None or self._asking is None:
                raise KeyUnavailable("the keys are not followed")
            self._reads += 1
            end = (await self._asking.end_offsets([self._part]))[self._part]
            while await self._consumer.position(self._part) < end:
                self._take(await self._consumer.getmany(self._part, timeout_ms=POLL_MS))
            self._reads += 1

    async def _follow(self) -> None:
        while True:
            try:
                async with self._reading:
                    if self._consumer is not None:
                        self._take(await self._consumer.getmany(self._part, timeout_ms=0))
                await asyncio.sleep(POLL_MS / 1000)
            except KafkaError as error:
                log.warning("the keys of personal data cannot be read now: %s", error)
                await asyncio.sleep(RETRY_S)
            except Exception:  # whoever follows no more opens what is erased, and nobody sees it
                log.exception("the keys of personal data cannot be read now")
                await asyncio.sleep(RETRY_S)

    def _take(self, batches: dict[TopicPartition, list[Any]]) -> None:
        for record in (record for batch in batches.values() for record in batch):
            key_id = (record.key or b"").decode("utf-8", "replace")
            if record.value is None:
                self._erase(key_id)
                continue
            try:
                self._add(key_id, bytes(record.value))
            except Exception:  # the tombstones behind it count all the same
                log.exception("a record of the topic of keys is passed over")

    def _is_erased(self, key_id: str) -> bool:
        return key_id in self._erased or key_id in self._unknown

    def _erase(self, key_id: str) -> None:
        """Tombstones of what was no key here are remembered apart: so many of them as somebody may write push
        none out of memory that was one."""
        if not KEY_ID.fullmatch(key_id) or key_id in self._erased:
            return
        (self._erased if key_id in self._lying else self._unknown).add(key_id)
        self._opened.pop(key_id, None)
        for owner, _ in self._lying.pop(key_id, ()):
            self._forget_name(owner.name, key_id)

    def _add(self, key_id: str, value: bytes) -> None:
        """What is written again after its erasure stays erased here, as long as its tombstone is remembered;
        what a signed erasure names, whoever asks for keys refuses by that. A later record of a key wraps it
        anew, or says what is not so: which of them opens shows when it is asked for."""
        key = read_wrapped_key(key_id, value)
        if key is None or self._is_erased(key_id):
            return
        each, lying = read_lying(key), self._lying.get(key_id, ())
        if each in lying:
            return
        self._lying[key_id] = (*lying[: MOST_LYING - 1], each)
        for dropped in lying[MOST_LYING - 1 :]:
            self._forget_name(dropped.owner.name, key_id)
        named = self._subjects.setdefault(each.owner.name, [])
        if key_id not in named:
            named.append(key_id)

    def _forget_name(self, name: bytes, key_id: str) -> None:
        """Where no record of the key that is held has this name."""
        named = self._subjects.get(name, [])
        if key_id in named and all(each.owner.name != name for each in self._lying.get(key_id, ())):
            named.remove(key_id)
        if not named:
            self._subjects.pop(name, None)
