"""One reader of committed answers for any number of waiters.

The reader finds an answer by its id, which follows from the coordinates that the broker gave the input. The
id is in the header `ce_id`, so the reader skips other records without parsing them. It fetches only
partitions for which a caller waits, and starts at the end of such a partition before the caller publishes its
input.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.answers import InputPlace

log = logging.getLogger(__name__)

ID_HEADER, TYPE_HEADER = "ce_id", "ce_type"
OPENINGS = (b"sluice.gate.escalation_opened.v1", b"sluice.gate.retrieval_escalation_opened.v1")
POLL_MS = 500
CLOCKS_APART_MS = 60_000
"""How far the clocks of two brokers may differ."""
FETCH_WAIT_MS = 100
"""How long the broker holds a fetch that finds nothing. A partition that is resumed waits until the current
fetch ends."""
AWAKE_S = 60.0
"""How long a partition is still fetched after its last caller has gone, so that the next one need not resume
it."""


class CommittedAnswer(NamedTuple):
    """A committed record that answers an input; `topic` is the base name."""

    topic: str
    record: dict[str, Any]


class PlacedInput(NamedTuple):
    """An input as the broker has it; `timestamp_ms` is the broker's."""

    value: bytes
    timestamp_ms: int


class AnswerReader:
    """Reads the answers of some topics. Everything happens on one event loop."""

    def __init__(self, connection: Mapping[str, Any], topics: Mapping[str, str], prefix: str = "") -> None:
        """`connection`: aiokafka's arguments for a client. `topics`: real names to base names; `prefix`: of
        every topic."""
        self._connection = connection
        self._prefix = prefix
        self._topics = topics
        self._waiting: dict[tuple[str, str], set[asyncio.Future[CommittedAnswer]]] = {}
        self._placing: Counter[int] = Counter()
        self._early: dict[int, dict[tuple[str, str], Any]] = {}
        self._heeded: Counter[TopicPartition] = Counter()
        self._awake: dict[TopicPartition, float] = {}
        self._waking = asyncio.Lock()
        self._consumer: AIOKafkaConsumer | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, partitions: int) -> None:
        """Connect. Raises KafkaError if the broker is not there. `partitions`: the number in each topic."""
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the client loads no Kafka

        self._consumer = await self._connected()
        parts = [TopicPartition(real, number) for real in self._topics for number in range(partitions)]
        self._consumer.assign(parts)
        self._consumer.pause(*parts)
        self._task = asyncio.create_task(self._read())

    @property
    def is_reading(self) -> bool:
        """Whether answers are read: it is started, and has not ended."""
        return self._task is not None and not self._task.done()

    async def ended(self) -> None:
        """Return once answers are read no more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop. Callers that still wait get a ConnectionError."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._consumer is not None:
            await self._consumer.stop()
        self._fail(ConnectionError("the client was closed"))

    @asynccontextmanager
    async def heeding(self, partition: int, topics: Collection[str]) -> AsyncIterator[None]:
        """Read this partition of these topics within the block; from its start on no answer is missed.

        Raises ConnectionError if the broker does not answer or the reader has ended.
        """
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the client loads no Kafka

        parts = [TopicPartition(real, partition) for real, base in self._topics.items() if base in topics]
        self._heeded.update(parts)
        try:
            await self._wake(parts)
            yield
        finally:
            self._heeded.subtract(parts)
            until = asyncio.get_running_loop().time() + AWAKE_S
            left = (part for part in parts if part in self._awake and not self._heeded[part])
            self._awake.update(dict.fromkeys(left, until))

    @contextmanager
    def placing(self, partition: int) -> Iterator[None]:
        """Within the block, keep early answers: an answer may come before the input's coordinates are
        known."""
        self._placing[partition] += 1
        try:
            yield
        finally:
            self._placing[partition] -= 1
            if not self._placing[partition]:
                self._early.pop(partition, None)

    def expect(
        self, ids: Sequence[str], partition: int, topics: Collection[str]
    ) -> asyncio.Future[CommittedAnswer]:
        """The first record with one of these ids in one of these topics. Called within `placing`, it finds
        those that came early.

        Any number may wait for the same, each with other ids beside it.
        """
        names = [(topic, one) for one in ids for topic in topics]
        found: asyncio.Future[CommittedAnswer] = asyncio.get_running_loop().create_future()
        early = self._early.get(partition, {})
        for name in names:
            if name in early:
                found.set_result(self._answer(early[name]))
                return found
        for name in names:
            self._waiting.setdefault(name, set()).add(found)
        found.add_done_callback(lambda _: self._forget(names, found))
        return found

    async def look_back(
        self, ids: Collection[str], place: InputPlace, topics: Collection[str]
    ) -> CommittedAnswer | None:
        """Look for the answer in the records committed since the input came; None if it is not there yet.

        Reads the partition's topics once, from the input's time to their present ends.
        """
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the client loads no Kafka

        consumer = await self._connected()
        try:
            parts = [
                TopicPartition(real, place.partition) for real, base in self._topics.items() if base in topics
            ]
            return await self._look(consumer, parts, set(ids), place.timestamp_ms - CLOCKS_APART_MS)
        finally:
            await consumer.stop()

    async def value_at(self, topic: str, place: InputPlace) -> bytes | None:
        """The value of an input at its coordinates; None if it is no longer there."""
        found = await self.input_at(topic, place.partition, place.offset)
        return None if found is None else found.value

    async def input_at(self, topic: str, partition: int, offset: int) -> PlacedInput | None:
        """The input at a place of a topic (base name); None where none is there, or no longer."""
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the client loads no Kafka

        consumer = await self._connected()
        try:
            part = TopicPartition(self._prefix + topic, partition)
            consumer.assign([part])
            consumer.seek(part, offset)
            while await consumer.position(part) <= offset < (await consumer.end_offsets([part]))[part]:
                for record in (await consumer.getmany(part, timeout_ms=POLL_MS)).get(part, ()):
                    if record.offset == offset:
                        return PlacedInput(bytes(record.value or b""), record.timestamp)
            return None
        finally:
            await consumer.stop()

    async def _look(
        self, consumer: AIOKafkaConsumer, parts: list[TopicPartition], ids: set[str], since_ms: int
    ) -> CommittedAnswer | None:
        consumer.assign(parts)
        begins = await consumer.offsets_for_times(dict.fromkeys(parts, since_ms))
        ends = await consumer.end_offsets(parts)
        left = {part for part in parts if begins[part] is not None and begins[part].offset < ends[part]}
        for part in parts:
            if part in left:
                consumer.seek(part, begins[part].offset)
            else:
                consumer.pause(part)
        while left:
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            for record in (one for batch in batches.values() for one in batch):
                if _id_of(record) in ids:
                    return self._answer(record)
            left = {part for part in left if await consumer.position(part) < ends[part]}
        return None

    async def _wake(self, parts: list[TopicPartition]) -> None:
        consumer = self._consumer
        if consumer is None or self._task is None:
            raise RuntimeError("the client is not started")
        if self._task.done():
            raise ConnectionError("the reader of answers has ended: close this client and start another")
        async with self._waking:
            asleep = [part for part in parts if part not in self._awake]
            if asleep:
                if not await consumer.seek_to_end(*asleep):
                    raise ConnectionError("the broker does not say where its answers end")
                consumer.resume(*asleep)
            self._awake.update(dict.fromkeys(parts, float("inf")))

    async def _read(self) -> None:
        consumer = self._consumer
        try:
            while consumer is not None:
                for batch in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                    for record in batch:
                        self._take(record)
                self._let_sleep(consumer)
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            log.exception("the reader of answers has ended")
            self._fail(fault)

    def _take(self, record: Any) -> None:
        name = self._topics[record.topic], _id_of(record)
        waiting = [one for one in self._waiting.get(name, ()) if not one.done()]
        if waiting:
            answer = self._answer(record)
            for one in waiting:
                one.set_result(answer)
        if self._placing[record.partition]:
            self._early.setdefault(record.partition, {})[name] = record

    def _let_sleep(self, consumer: AIOKafkaConsumer) -> None:
        now = asyncio.get_running_loop().time()
        tired = [part for part, until in self._awake.items() if until <= now and not self._heeded[part]]
        if tired and not self._waking.locked():
            consumer.pause(*tired)
            for part in tired:
                del self._awake[part]

    def _answer(self, record: Any) -> CommittedAnswer:
        return CommittedAnswer(self._topics[record.topic], json.loads(record.value))

    def _forget(self, names: Sequence[tuple[str, str]], found: asyncio.Future[CommittedAnswer]) -> None:
        for one in names:
            waiting = self._waiting.get(one, set())
            waiting.discard(found)
            if not waiting:
                self._waiting.pop(one, None)

    def _fail(self, fault: BaseException) -> None:
        for waiting in {one for found in self._waiting.values() for one in found}:
            if not waiting.done():
                waiting.set_exception(fault)
                waiting.exception()  # mark it as seen: the caller may have gone

    async def _connected(self) -> AIOKafkaConsumer:
        from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - importing the client loads no Kafka

        consumer = AIOKafkaConsumer(
            **self._connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="latest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        try:
            await consumer.start()
        except BaseException:
            await consumer.stop()
            raise
        return consumer


def _id_of(record: Any) -> str:
    """The id of the answer that a record is. None for the opening of an escalation, which has the id of its
    end."""
    headers = dict(record.headers)
    if headers.get(TYPE_HEADER) in OPENINGS:
        return ""
    return str(headers.get(ID_HEADER, b""), "utf-8", "replace")
