"""The bytes of an input by its coordinates: what an approval of a held memory releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from app.adapters.kafka_inputs import KafkaInputs
from app.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTIONS = 4
"""Partitions read at once. Of 1000 approvals at once, those of a partition are read together."""


class KafkaHeldInput:
    """The port `held_input`. Connects with the first question."""

    def __init__(self, bootstrap_servers: str, real_names: Mapping[str, str]) -> None:
        """`real_names`: topic on the broker by base name."""
        self._names = real_names
        self._inputs = KafkaInputs(bootstrap_servers, CONNECTIONS)

    async def ask(self, payload: object) -> object:
        """The value's bytes at `payload` {topic, partition, offset}. Raises PortUnavailable."""
        assert isinstance(payload, dict)  # noqa: S101 - the core's own request
        part, offset = TopicPartition(self._names[payload["topic"]], payload["partition"]), payload["offset"]
        try:
            return await self._value(part, offset)
        except KafkaError:
            pass  # once more on a new connection: a refused review must be signed again
        try:
            return await self._value(part, offset)
        except KafkaError as error:
            raise PortUnavailable(f"{part.topic}: {error}") from error

    async def start(self) -> None:
        """Nothing: most workers are never asked."""

    async def close(self) -> None:
        """Give up the connections."""
        await self._inputs.close()

    async def _value(self, part: TopicPartition, offset: int) -> bytes:
        message = await self._inputs.at(part, offset)
        if message is None:
            raise PortUnavailable(f"{part.topic}:{part.partition}:{offset} is no longer there")
        return bytes(message.value or b"")
