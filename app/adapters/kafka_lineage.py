"""The port `lineage`: what was decided on memories of other sessions, read from the ledger."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from app.core.ids import coordinates_of
from app.ports import PortUnavailable
from topics.catalog import MEMORY_DECISIONS, QUARANTINE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

REMEMBERED = 8192
_POLL_MS = 100
_CLOCKS_APART_MS = 1000
"""A decision is written after its input; brokers' clocks differ by less than this."""
_ENDED = {
    "sluice/quarantine_approved/v1": "approved",
    "sluice/quarantine_rejected/v1": "rejected",
    "sluice/quarantine_expired/v1": "expired",
    "sluice/quarantine_evicted/v1": "evicted",
}


class Past(NamedTuple):
    """What became of a memory: whose it is, its trust when decided, and how it left the quarantine."""

    tenant: str | None
    trust: float | None
    ended: str | None


UNKNOWN = Past(None, None, None)


class KafkaLineage:
    """One question at a time. What can no longer change is remembered; connects with the first question."""

    def __init__(self, bootstrap_servers: str, real_names: Mapping[str, str], partitions: int) -> None:
        """`real_names`: topic on the broker by base name."""
        self._servers = bootstrap_servers
        self._names = real_names
        self._partitions = partitions
        self._consumer: AIOKafkaConsumer | None = None
        self._known: OrderedDict[str, Past] = OrderedDict()
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Nothing: most workers are never asked."""

    async def close(self) -> None:
        """Give up the connection."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def ask(self, payload: object) -> object:
        """`payload` {tenant, memories, approved}: {parents: trust by id}, as of now. Raises PortUnavailable.

        What a person approved counts as at least `approved`, what a person rejected as nothing.
        """
        assert isinstance(payload, dict)  # noqa: S101 - the core's own request
        async with self._turn:
            try:
                past = {one: await self._past(one) for one in payload["memories"]}
            except KafkaError as error:
                await self.close()
                raise PortUnavailable(f"the ledger cannot be read: {error}") from error
        tenant, approved = payload["tenant"], payload["approved"]
        return {"parents": {one: _trust(found, tenant, approved) for one, found in past.items()}}

    async def _past(self, memory_id: str) -> Past:
        known = self._known.get(memory_id)
        if known is not None:
            return known
        past, final = await self._looked_up(memory_id)
        if final:
            self._known[memory_id] = past
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return past

    async def _looked_up(self, memory_id: str) -> tuple[Past, bool]:
        """What became of it, and whether it stays so."""
        topic, number, offset = coordinates_of(memory_id)
        at_ms = await self._arrived_at(TopicPartition(self._names[topic], number), offset)
        if at_ms is None:
            return UNKNOWN, False
        since = max(0, at_ms - _CLOCKS_APART_MS)
        decision = await self._first(MEMORY_DECISIONS, number, since, memory_id)
        if decision is None:
            return UNKNOWN, False
        score = decision["trustScore"]
        past = Past(decision["tenant_id"], None if score is None else score["total"], None)
        if decision["action"] != "quarantine":
            return past, True
        ended = await self._first(QUARANTINE, number, since, memory_id, frozenset(_ENDED))
        return (past, False) if ended is None else (past._replace(ended=_ENDED[ended["schema"]]), True)

    async def _arrived_at(self, part: TopicPartition, offset: int) -> int | None:
        if part.partition >= self._partitions:
            return None
        consumer = await self._connected()
        consumer.assign([part])
        first = (await consumer.beginning_offsets([part]))[part]
        end = (await consumer.end_offsets([part]))[part]
        if not first <= offset < end:
            return None
        consumer.seek(part, offset)
        while await consumer.position(part) <= offset:
            for message in (await consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, ()):
                if message.offset == offset:
                    return int(message.timestamp)
        return None

    async def _first(
        self, base: str, number: int, since_ms: int, memory_id: str, schemas: frozenset[str] | None = None
    ) -> dict[str, Any] | None:
        sought = f'"memory_id":"{memory_id}"'.encode()
        async for value in self._since(TopicPartition(self._names[base], number), since_ms):
            if sought in value:
                body: dict[str, Any] = orjson.loads(value)
                if body["memory_id"] == memory_id and (schemas is None or body["schema"] in schemas):
                    return body
        return None

    async def _since(self, part: TopicPartition, since_ms: int) -> AsyncIterator[bytes]:
        consumer = await self._connected()
        consumer.assign([part])
        start = (await consumer.offsets_for_times({part: since_ms}))[part]
        end = (await consumer.end_offsets([part]))[part]
        if start is None:
            return
        consumer.seek(part, start.offset)
        while await consumer.position(part) < end:
            for message in (await consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, ()):
                yield message.value or b""

    async def _connected(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._servers,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=_POLL_MS,
            )
            try:
                await consumer.start()
            except KafkaError:
                await consumer.stop()
                raise
            self._consumer = consumer
        return self._consumer


def _trust(past: Past, tenant: str, approved: float) -> float | None:
    """Another tenant's memories are nobody's here."""
    if past.tenant != tenant or past.trust is None:
        return None
    if past.ended == "rejected":
        return 0
    return max(past.trust, approved) if past.ended == "approved" else past.trust
