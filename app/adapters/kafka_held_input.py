"""The bytes of an input by its coordinates: what an approval of a held memory releases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from app.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

_POLL_MS = 100


class KafkaHeldInput:
    """The port `held_input`. One question at a time; connects with the first one."""

    def __init__(self, bootstrap_servers: str, real_names: Mapping[str, str]) -> None:
        """`real_names`: topic on the broker by base name."""
        self._servers = bootstrap_servers
        self._names = real_names
        self._consumer: AIOKafkaConsumer | None = None
        self._turn = asyncio.Lock()

    async def ask(self, payload: object) -> object:
        """The value's bytes at `payload` {topic, partition, offset}. Raises PortUnavailable."""
        assert isinstance(payload, dict)  # noqa: S101 - the core's own request
        part = TopicPartition(self._names[payload["topic"]], payload["partition"])
        async with self._turn:
            try:
                return await self._value(part, payload["offset"])
            except KafkaError:
                await self.close()  # once more on a new connection: a refused review must be signed again
            try:
                return await self._value(part, payload["offset"])
            except KafkaError as error:
                await self.close()
                raise PortUnavailable(f"{part.topic}: {error}") from error

    async def start(self) -> None:
        """Nothing: most workers are never asked."""

    async def close(self) -> None:
        """Give up the connection."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def _value(self, part: TopicPartition, offset: int) -> bytes:
        consumer = await self._connected()
        consumer.assign([part])
        first = (await consumer.beginning_offsets([part]))[part]
        end = (await consumer.end_offsets([part]))[part]
        if not first <= offset < end:
            raise PortUnavailable(f"{part.topic}:{part.partition}:{offset} is no longer there")
        consumer.seek(part, offset)
        while await consumer.position(part) <= offset:
            for message in (await consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, ()):
                if message.offset == offset:
                    return bytes(message.value or b"")
        raise PortUnavailable(f"{part.topic}:{part.partition}:{offset} is no longer there")

    async def _connected(self) -> Any:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._servers,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=_POLL_MS,
                max_poll_records=1,
            )
            try:
                await consumer.start()
            except KafkaError:
                await consumer.stop()
                raise
            self._consumer = consumer
        return self._consumer
