"""A ledger of memory decisions on a real broker, laid by hand, for what looks single ones up."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer

from sluice.adapters.kafka.kafka_topics import create
from sluice.core.memory.lineage import request_lineage
from sluice_topics.catalog import CATALOG, MEMORY_WRITES
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

PARTITIONS = 2
TENANT = "tenant-1"
TRUST = 0.9


@dataclass(frozen=True)
class Memories:
    """Topics of their own."""

    servers: str
    prefix: str

    @property
    def names(self) -> dict[str, str]:
        """Topic on the broker by base name."""
        return {topic.name: topic.real_name(self.prefix, self.prefix) for topic in CATALOG}

    async def lay(self, base: str, values: Iterable[bytes], partition: int = 0) -> None:
        """Append values to a partition of a topic, committed."""
        async with AIOKafkaProducer(bootstrap_servers=self.servers, linger_ms=5) as producer:
            for value in values:
                await producer.send(self.names[base], value, partition=partition)

    async def inputs(self, count: int, partition: int = 0) -> None:
        """So many inputs, whose decisions are still to be written."""
        await self.lay(MEMORY_WRITES, [f"input {number}".encode() for number in range(count)], partition)

    @asynccontextmanager
    async def transaction(self, base: str) -> AsyncIterator[AIOKafkaProducer]:
        """One with a record in partition 0, open until its block ends."""
        name = f"{self.prefix}{base}"
        async with AIOKafkaProducer(bootstrap_servers=self.servers, transactional_id=name) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(self.names[base], b"{}", partition=0)
            try:
                yield producer
            finally:
                await producer.commit_transaction()


async def memories(servers: str, prefix: str) -> Memories:
    """With its topics created."""
    await create(servers, TopicLayout(prefix, prefix, PARTITIONS), 1)
    return Memories(servers, prefix)


def memory(offset: int, partition: int = 0) -> str:
    """The id of the memory whose input lies there."""
    return f"memory:{MEMORY_WRITES}:{partition}:{offset}"


def decision(offset: int, partition: int = 0, **more: Any) -> bytes:
    """The ledger's decision on that input, as far as lookups read it."""
    digest = "sha256:" + sha256(f"input {offset}".encode()).hexdigest()
    fields = {
        "action": "allow",
        "input": {"topic": MEMORY_WRITES, "partition": partition, "offset": offset, "digest": digest},
        "memory_id": memory(offset, partition),
        "tenant_id": TENANT,
        "trustScore": {"total": TRUST, "uncapped": TRUST, "caps": []},
    }
    return json.dumps({**fields, **more}, separators=(",", ":")).encode()


def question(*memory_ids: str, tenant: str = TENANT) -> object:
    """What the core asks the lineage port."""
    return request_lineage(tenant, list(memory_ids), 0.7, 10_000).payload


def find_result(**trust: float | None) -> object:
    """The port's answer: trust by offset in partition 0, "o5" for offset 5."""
    return {"parents": {memory(int(name[1:])): value for name, value in trust.items()}}
