"""One reader of committed answers for any number of waiters.

The reader finds an answer by its id, which follows from the coordinates that the broker gave the input. The
id is in the header `ce_id`, so the reader skips other records without parsing them. A record that has the id
and is not the answer (binding.py) is passed over. The reader fetches only partitions for which a caller
waits, and starts at the end of such a partition before the caller publishes its input.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from sluice.client.kafka_reading import FOLLOW_MS, connect_consumer
from sluice.client.past_records import LATEST, PastRecords, read_answer_id
from sluice.client.record_proofs import NO_PROOFS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.binding import AnswerQuery, CommittedAnswer
    from sluice.client.record_proofs import RecordProofs

log = logging.getLogger(__name__)

AWAKE_S = 60.0
"""How long a partition is still fetched after its last caller has gone, so that the next one need not resume
it."""


class AnswerReader(PastRecords):
    """Reads the answers of some topics, those to come and those that are there. On one event loop."""

    def __init__(
        self,
        connection: Mapping[str, Any],
        topics: Mapping[str, str],
        prefix: str = "",
        proofs: RecordProofs = NO_PROOFS,
    ) -> None:
        """Takes the same arguments as PastRecords."""
        super().__init__(connection, topics, prefix, proofs)
        self._waiting: dict[tuple[str, str], dict[asyncio.Future[CommittedAnswer], AnswerQuery]] = {}
        self._placing: Counter[int] = Counter()
        self._early: dict[int, dict[tuple[str, str], list[Any]]] = {}
        self._heeded: Counter[TopicPartition] = Counter()
        self._awake: dict[TopicPartition, float] = {}
        self._waking = asyncio.Lock()
        self._consumer: AIOKafkaConsumer | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, partitions: int) -> None:
        """Connect. Raises KafkaError if the broker is not there. `partitions`: the number in each topic."""
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the client loads no Kafka

        self._consumer = await connect_consumer(self._connection, **LATEST)
        parts = [TopicPartition(real, number) for real in self._topics for number in range(partitions)]
        self._consumer.assign(parts)
        self._consumer.pause(*parts)
        self._task = asyncio.create_task(self._read())

    @property
    def is_reading(self) -> bool:
        """Whether answers are read: it is started, and has not ended."""
        return self._task is not None and not self._task.done()

    async def wait_until_ended(self) -> None:
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
    async def read_partition(self, partition: int, topics: Collection[str]) -> AsyncIterator[None]:
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
    def keep_early_answers(self, partition: int) -> Iterator[None]:
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
        self, sought: AnswerQuery, partition: int, topics: Collection[str]
    ) -> asyncio.Future[CommittedAnswer]:
        """The first record in one of these topics that is what is sought.

        Called within `keep_early_answers`, it finds those that came early. Any number may wait for the same,
        each with other ids beside it.
        """
        names = [(topic, an_id) for an_id in sought.ids for topic in topics]
        future: asyncio.Future[CommittedAnswer] = asyncio.get_running_loop().create_future()
        early = self._early.get(partition, {})
        for record in (early_record for name in names for early_record in early.get(name, ())):
            if (answer := self._accept(record, sought)) is not None:
                future.set_result(answer)
                return future
        for name in names:
            self._waiting.setdefault(name, {})[future] = sought
        future.add_done_callback(lambda _: self._forget(names, future))
        return future

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
                for batch in (await consumer.getmany(timeout_ms=FOLLOW_MS)).values():
                    for record in batch:
                        self._take(record)
                self._pause_partitions(consumer)
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            log.exception("the reader of answers has ended")
            self._fail(fault)

    def _take(self, record: Any) -> None:
        name = self._topics[record.topic], read_answer_id(record)
        for waiting, sought in list(self._waiting.get(name, {}).items()):
            if not waiting.done() and (answer := self._accept(record, sought)) is not None:
                waiting.set_result(answer)
        if self._placing[record.partition]:
            self._early.setdefault(record.partition, {}).setdefault(name, []).append(record)

    def _pause_partitions(self, consumer: AIOKafkaConsumer) -> None:
        now = asyncio.get_running_loop().time()
        tired = [part for part, until in self._awake.items() if until <= now and not self._heeded[part]]
        if tired and not self._waking.locked():
            consumer.pause(*tired)
            for part in tired:
                del self._awake[part]

    def _forget(self, names: Collection[tuple[str, str]], future: asyncio.Future[CommittedAnswer]) -> None:
        for name in names:
            waiting = self._waiting.get(name, {})
            waiting.pop(future, None)
            if not waiting:
                self._waiting.pop(name, None)

    def _fail(self, fault: BaseException) -> None:
        for waiting in {future for futures in self._waiting.values() for future in futures}:
            if not waiting.done():
                waiting.set_exception(fault)
                waiting.exception()  # mark it as seen: the caller may have gone
