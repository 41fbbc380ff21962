"""The port `lineage`: what was decided on memories of other sessions, read from the ledger."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import orjson
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_consumers import Pool, read_batches_since
from sluice.adapters.kafka.kafka_inputs import KafkaInputs
from sluice.client.binding import compute_digest
from sluice.client.kafka_reading import Connection
from sluice.client.record_proofs import NO_PROOFS
from sluice.core.foundation.input_record import read_coordinates
from sluice.core.reports.pending_subject import LEFT
from sluice.ports import PortUnavailable
from sluice_topics.catalog import MEMORY_DECISIONS, QUARANTINE
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.record_proofs import RecordProofs

_CLOCKS_APART_MS = 1000
"""A decision is written after its input; brokers' clocks differ by less than this."""


@dataclass(frozen=True, slots=True)
class LineageBounds:
    """How much one question may cost, and one tenant's questions.

    Decisions of a partition are nearly in the order of their inputs; one that waits for a model comes later.
    Beyond `further` inputs none is waited for, nor beyond `scanned` records since the input came: what is not
    found by then is unknown, for `unknown_s` without looking again. 8192 decisions of 3 KB take 0.4 s.
    """

    connections: int = 4
    of_one_tenant: int = 2
    scanned: int = 32_768
    further: int = 8192
    unknown_s: float = 60.0
    remembered: int = 8192


class Past(NamedTuple):
    """What became of a memory: whose it is, its trust when decided, and how it left the quarantine."""

    tenant: str | None
    trust: float | None
    ended: str | None


class MemoryQuery(NamedTuple):
    """A record's fields; None with `over` where none is waited for any more."""

    fields: dict[str, Any] | None
    over: bool


UNKNOWN = Past(None, None, None)


class KafkaLineage:
    """Remembers what can no longer change; connects with the first question."""

    def __init__(
        self,
        cluster: KafkaCluster,
        real_names: Mapping[str, str],
        partitions: int,
        bounds: LineageBounds = LineageBounds(),
        proofs: RecordProofs = NO_PROOFS,
    ) -> None:
        """`real_names`: topic on the broker by base name; `proofs`: which keys must have signed decisions."""
        self._proofs = proofs
        self._names = real_names
        self._partitions = partitions
        self._bounds = bounds
        self._pool = Pool(bounds.connections, cluster, "read_committed")
        self._asking = Connection(cluster, "read_uncommitted")
        self._inputs = KafkaInputs(cluster, 1)
        self._cached: OrderedDict[str, tuple[Past, float]] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def start(self) -> None:
        """Nothing: most workers are never asked."""

    async def close(self) -> None:
        """Give up the connections."""
        await asyncio.gather(self._pool.close(), self._asking.close(), self._inputs.close())

    async def ask(self, payload: object) -> object:
        """`payload` {tenant, memories, approved}: {parents: trust by id}, as of now. Raises PortUnavailable.

        What a person approved counts as at least `approved`, what a person rejected as nothing.
        """
        assert isinstance(payload, dict)  # noqa: S101 - the core's own request
        tenant, approved = payload["tenant"], payload["approved"]
        turn = self._turns.setdefault(tenant, asyncio.Semaphore(self._bounds.of_one_tenant))
        async with turn:
            try:
                async with self._pool.borrow_consumer() as consumer:
                    past = {
                        memory_id: await self._find_past(consumer, memory_id)
                        for memory_id in set(payload["memories"])
                    }
            except KafkaError as error:
                await self._asking.close()
                raise PortUnavailable(f"the ledger cannot be read: {error}") from error
        return {
            "parents": {
                memory_id: _compute_trust(past_record, tenant, approved)
                for memory_id, past_record in past.items()
            }
        }

    async def _find_past(self, consumer: AIOKafkaConsumer, memory_id: str) -> Past:
        now = asyncio.get_running_loop().time()
        cached, until = self._cached.get(memory_id, (UNKNOWN, 0.0))
        if now < until:
            return cached
        past, until = await self._look_up(consumer, memory_id)
        if now < until:
            self._cached[memory_id] = past, until
            if len(self._cached) > self._bounds.remembered:
                self._cached.popitem(last=False)
        return past

    async def _look_up(self, consumer: AIOKafkaConsumer, memory_id: str) -> tuple[Past, float]:
        """Find the fate of a memory, and the loop time until which it need not be asked again."""
        topic, number, offset = read_coordinates(memory_id)
        if number >= self._partitions:
            return UNKNOWN, 0.0
        arrived = await self._inputs.fetch(TopicPartition(self._names[topic], number), offset)
        if arrived is None:
            return UNKNOWN, 0.0
        since = max(0, arrived.timestamp - _CLOCKS_APART_MS)
        digest = compute_digest(arrived.value or b"")
        decision = await self._find_first(consumer, MEMORY_DECISIONS, since, memory_id, digest)
        if decision.fields is None:
            return UNKNOWN, self._read_until(decision)
        past = _read_past(decision.fields)
        if decision.fields.get("action") != "quarantine":
            return past, math.inf
        ended = await self._find_first(consumer, QUARANTINE, since, memory_id)
        if ended.fields is None:
            return (UNKNOWN if ended.over else past), self._read_until(ended)
        return past._replace(ended=LEFT[ended.fields["schema"]]), math.inf

    def _read_until(self, sought: MemoryQuery) -> float:
        return asyncio.get_running_loop().time() + self._bounds.unknown_s if sought.over else 0.0

    async def _find_first(
        self, consumer: AIOKafkaConsumer, base: str, since_ms: int, memory_id: str, digest: str | None = None
    ) -> MemoryQuery:
        """The decision on this memory, whose write has this digest, or what ended its quarantine."""
        _, number, offset = read_coordinates(memory_id)
        part, read = TopicPartition(self._names[base], number), 0
        asking = await self._asking.connect()
        async for batch in read_batches_since(consumer, asking, part, since_ms):
            for message in batch:
                fields = _read_if_about(memory_id, message.value or b"")
                if fields is None or self._proofs.find_objection(base, message) is not None:
                    continue
                if fields.get("schema") in LEFT or _is_decision(fields, digest):
                    return MemoryQuery(fields, over=False)
            read += len(batch)
            inputs = [_read_input_offset(item.value) for item in batch[-1:] if base == MEMORY_DECISIONS]
            if read >= self._bounds.scanned or any(
                read_offset - offset > self._bounds.further for read_offset in inputs
            ):
                return MemoryQuery(None, over=True)
        return MemoryQuery(None, over=False)


def _is_decision(fields: dict[str, Any], digest: str | None) -> bool:
    """Whether it decides the write with these bytes: a stranger's record under the id does not know them."""
    source = fields.get("input")
    return digest is not None and isinstance(source, dict) and source.get("digest") == digest


def _read_past(fields: dict[str, Any]) -> Past:
    score = fields.get("trustScore")
    return Past(fields.get("tenant_id"), score["total"] if isinstance(score, dict) else None, None)


def _read_input_offset(value: bytes | None) -> int:
    """The offset of the input that a decision is on; -1 for a record that is not a decision."""
    try:
        return int(orjson.loads(value or b"")["input"]["offset"])
    except (ValueError, LookupError, TypeError):
        return -1


def _compute_trust(past: Past, tenant: str, approved: float) -> float | None:
    """Memories of another tenant are treated as unknown."""
    if past.tenant != tenant or past.trust is None:
        return None
    if past.ended == "rejected":
        return 0
    return max(past.trust, approved) if past.ended == "approved" else past.trust


def _read_if_about(memory_id: str, value: bytes) -> dict[str, Any] | None:
    """The record's fields if it is on this memory. One on a derived memory holds the id too, in its view."""
    if f'"memory_id":"{memory_id}"'.encode() not in value:
        return None
    fields = parse(value)
    return fields if isinstance(fields, dict) and fields.get("memory_id") == memory_id else None
