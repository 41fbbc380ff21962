"""Single inputs by their coordinates. Those of one partition that wait are fetched together.

They are read uncommitted: what lies at an offset never changes, and who asks for an input has had it
delivered, or wants no more than the time at which it came.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_consumers import Pool
from sluice.client.kafka_reading import read_around
from sluice.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster

READ_ON = 64
"""Up to this many records further it is quicker to read on than to fetch anew."""
_FETCH_BYTES = 65_536
"""Of a partition; a single record that is larger comes whole all the same (KIP-74)."""
Asked = dict[int, list[asyncio.Future[Any]]]
"""Who waits, by offset."""


class KafkaInputs:
    """Reads `connections` partitions at once. Connects with the first question."""

    def __init__(self, cluster: KafkaCluster, connections: int) -> None:
        self._pool = Pool(connections, cluster, "read_uncommitted", fetch_bytes=_FETCH_BYTES)
        self._asked: dict[TopicPartition, Asked] = {}
        self._serving: set[asyncio.Task[None]] = set()

    async def fetch(self, part: TopicPartition, offset: int) -> Any | None:
        """The message at this place, None where there is none (any more). Raises KafkaError."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if part not in self._asked:
            self._asked[part] = {}
            task = asyncio.create_task(self._serve(part, self._asked[part]))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        self._asked[part].setdefault(offset, []).append(answer)
        return await answer

    async def close(self) -> None:
        """Give up the connections; who still waits gets PortUnavailable."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._pool.close()

    async def _serve(self, part: TopicPartition, asked: Asked) -> None:
        """Answer until no caller waits. Nothing is awaited between finding that out and the end."""
        why: Exception = PortUnavailable("inputs are no longer read")
        try:
            async with self._pool.borrow_consumer() as consumer:
                consumer.assign([part])
                while waiting := _list_waiting(asked):
                    await _read(consumer, part, waiting, asked)
        except KafkaError as error:
            why = error
        finally:
            del self._asked[part]
            for answer in (answer for answers in asked.values() for answer in answers):
                if not answer.done():
                    answer.set_exception(why)


def _list_waiting(asked: Asked) -> list[int]:
    """Offsets for which a caller still waits, ascending; the others are forgotten."""
    for offset in [number for number, answers in asked.items() if all(answer.done() for answer in answers)]:
        del asked[offset]
    return sorted(asked)


async def _read(consumer: AIOKafkaConsumer, part: TopicPartition, offsets: list[int], asked: Asked) -> None:
    """Answer what is asked for at these offsets, and what comes with it, as long as somebody waits. Who asks
    for one that came before is answered the next time: it is there."""
    missing = set(offsets)
    async for batch in read_around(consumer, consumer, part, offsets, READ_ON):
        for message in batch:
            missing.discard(message.offset)
            _answer(asked, message.offset, message)
        if not _list_waiting(asked):
            return
    for offset in missing:
        _answer(asked, offset, None)


def _answer(asked: Asked, offset: int, message: Any | None) -> None:
    for answer in asked.get(offset, ()):
        if not answer.done():
            answer.set_result(message)


CONNECTIONS = 4
"""Partitions read at once. Of 1000 approvals at once, those of a partition are read together."""


class KafkaHeldInput:
    """The port `held_input`. Connects with the first question."""

    def __init__(self, cluster: KafkaCluster, real_names: Mapping[str, str]) -> None:
        """`real_names`: topic on the broker by base name."""
        self._names = real_names
        self._inputs = KafkaInputs(cluster, CONNECTIONS)

    async def ask(self, payload: object) -> object:
        """The value's bytes at `payload` {topic, partition, offset}. Raises PortUnavailable."""
        assert isinstance(payload, dict)  # noqa: S101 - the core's own request
        part, offset = TopicPartition(self._names[payload["topic"]], payload["partition"]), payload["offset"]
        try:
            return await self._fetch_value(part, offset)
        except KafkaError:
            pass  # once more on a new connection: a refused review must be signed again
        try:
            return await self._fetch_value(part, offset)
        except KafkaError as error:
            raise PortUnavailable(f"{part.topic}: {error}") from error

    async def start(self) -> None:
        """Nothing: most workers are never asked."""

    async def close(self) -> None:
        """Give up the connections."""
        await self._inputs.close()

    async def _fetch_value(self, part: TopicPartition, offset: int) -> bytes:
        message = await self._inputs.fetch(part, offset)
        if message is None:
            raise PortUnavailable(f"{part.topic}:{part.partition}:{offset} is no longer there")
        return bytes(message.value or b"")
