"""What waits for people, as it lies on a broker: held memories, escalations, what is behind them; reviews."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_consumers import Connection, read_batches_since
from sluice.adapters.kafka.kafka_inputs import KafkaHeldInput
from sluice.adapters.kafka.kafka_ledger import read_signed
from sluice.adapters.kafka.kafka_publish import publish
from sluice.adapters.kafka.kafka_read import list_partitions, make_unreachable, open_reader
from sluice.client.record_proofs import NO_PROOFS
from sluice.core.reports.ledger_values import NotInLedgerError, read_decision, read_event
from sluice.core.reports.memory_recount import StatisticsRecount
from sluice_topics.catalog import (
    BY_NAME,
    DEAD_LETTERS,
    ESCALATIONS,
    MEMORY_DECISIONS,
    QUARANTINE,
    REVIEWS,
    SESSION_EVENTS,
    SESSIONS_CHANGELOG,
    VERDICTS,
)
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from aiokafka import AIOKafkaConsumer

    from sluice.adapters.kafka.kafka_consumers import Isolation
    from sluice.adapters.kafka.kafka_publish import Outgoing, PublishedAt
    from sluice.adapters.kafka.kafka_read import StoredRecord, TopicReader
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.record_proofs import RecordProofs
    from sluice.core.reports.ledger_values import Event
    from sluice_topics.records import MemoryDecision


T = TypeVar("T")


def read_if_about(memory_id: str, value: bytes) -> dict[str, Any] | None:
    """The record's fields if it is on this memory. One on a derived memory holds the id too, in its view."""
    if f'"memory_id":"{memory_id}"'.encode() not in value:
        return None
    fields = parse(value)
    return fields if isinstance(fields, dict) and fields.get("memory_id") == memory_id else None


def _is_verdict(verdict_id: str, value: bytes) -> bool:
    fields = parse(value) if verdict_id.encode() in value else None
    return isinstance(fields, dict) and fields.get("verdict_id") == verdict_id


def read_stored_event(record: StoredRecord) -> Event:
    """The event of gate.quarantine in a record. Raises NotInLedgerError with its place."""
    return _read_with_place(read_event, record, "event of the quarantine")


def read_stored_decision(record: StoredRecord) -> MemoryDecision:
    """The decision of gate.memory.decisions in a record. Raises NotInLedgerError with its place."""
    return _read_with_place(read_decision, record, "decision on a memory")


def _try_event(record: StoredRecord) -> Event | None:
    try:
        return read_event(record.value)
    except NotInLedgerError:
        return None


def _read_with_place(read: Callable[[bytes | None], T], record: StoredRecord, what: str) -> T:
    try:
        return read(record.value)
    except NotInLedgerError as error:
        origin = f"{record.topic}:{record.partition}:{record.offset}"
        raise NotInLedgerError(f"{origin} is no {what}: {error}") from None


Place = tuple[str, int, int]
"""Base topic, partition and offset of an input."""

CLOCKS_APART_MS = 60_000
"""A decision is written after its input; brokers' clocks differ by less than this."""
ANSWERS = (QUARANTINE, ESCALATIONS, SESSION_EVENTS, DEAD_LETTERS)
"""Where it is written what became of a review."""


@dataclass(frozen=True, slots=True)
class Reviewed(Generic[T]):
    """Where a review lies, and what became of it; None if no answer came in time."""

    placed: PublishedAt
    outcome: T | None


class KafkaQuarantine:
    """Reads one installation's topics. Its methods raise UnknownTopics and KafkaUnreachable."""

    def __init__(
        self, cluster: KafkaCluster, real_names: Mapping[str, str], proofs: RecordProofs = NO_PROOFS
    ) -> None:
        """`real_names`: topic on the broker by base name; `proofs`: which keys must have signed what is read
        of the ledger."""
        self._proofs = proofs
        self._cluster = cluster
        self._names = real_names
        self._bases = {real: base for base, real in real_names.items()}

    async def read_events(self, name: str = "") -> AsyncIterator[Event]:
        """Every committed event of gate.quarantine that has this text in it, each partition in order. What no
        worker wrote is passed over (`sluice ledger verify` names it)."""
        async for _, record in self._read_all(QUARANTINE):
            if name.encode() in (record.value or b"") and (event := _try_event(record)) is not None:
                yield event

    async def read_escalations(self) -> AsyncIterator[StoredRecord]:
        """Every committed event of gate.escalations, each partition in order."""
        async for _, record in self._read_all(ESCALATIONS):
            yield record

    async def read_changelog(self) -> AsyncIterator[StoredRecord]:
        """Every committed entry of the workers' table, as far as the log is not compacted."""
        topics = {self._names[SESSIONS_CHANGELOG]: SESSIONS_CHANGELOG}
        async for _, record in read_signed(self._cluster, topics, "beginning", NO_PROOFS):
            yield record

    async def recompute(self, until: Mapping[int, int]) -> StatisticsRecount:
        """Every decision on a write and every event of the quarantine, counted up to a sequence of each
        partition. Raises NotInLedgerError too."""
        anew = StatisticsRecount(until)
        async for base, record in self._read_all(MEMORY_DECISIONS, QUARANTINE):
            if base == MEMORY_DECISIONS:
                anew.count_decision(read_stored_decision(record))
            else:
                anew.count_event(read_stored_event(record))
        return anew

    async def _read_all(self, *bases: str) -> AsyncIterator[tuple[str, StoredRecord]]:
        topics = {self._names[base]: base for base in bases}
        async for pair in read_signed(self._cluster, topics, "beginning", self._proofs):
            yield pair

    async def fetch_content(self, coordinates: Place) -> bytes:
        """The value of the input at this place. Raises PortUnavailable where it is no longer to be had."""
        topic, partition, offset = coordinates
        held_input = KafkaHeldInput(self._cluster, self._names)
        try:
            content = await held_input.ask({"topic": topic, "partition": partition, "offset": offset})
        finally:
            await held_input.close()
        assert isinstance(content, bytes)  # noqa: S101 - what the port answers
        return content

    async def fetch_decision(self, memory_id: str, partition: int, since_ms: int) -> bytes | None:
        """The decision on the write of this id, whose input came at `since_ms` (0: unknown)."""
        return await self._find_first_since(
            MEMORY_DECISIONS, partition, since_ms, lambda value: read_if_about(memory_id, value) is not None
        )

    async def fetch_verdict(self, verdict_id: str, partition: int, since_ms: int) -> bytes | None:
        """The verdict of this id, first or resolved, whose input came at `since_ms`."""
        return await self._find_first_since(
            VERDICTS, partition, since_ms, lambda value: _is_verdict(verdict_id, value)
        )

    async def _find_first_since(
        self, base: str, partition: int, since_ms: int, holds: Callable[[bytes], bool]
    ) -> bytes | None:
        part = TopicPartition(self._names[base], partition)
        if part not in await list_partitions(self._cluster, [part.topic]):
            return None
        since = max(0, since_ms - CLOCKS_APART_MS)
        async with (
            self._open_consumer("read_uncommitted") as asking,
            self._open_consumer("read_committed") as consumer,
        ):
            async for batch in read_batches_since(consumer, asking, part, since):
                for message in batch:
                    if holds(message.value or b"") and self._proofs.find_objection(base, message) is None:
                        return bytes(message.value)
        return None

    async def review(
        self,
        review: Outgoing,
        read_outcome: Callable[[PublishedAt, StoredRecord], T | None],
        patience_s: float,
    ) -> Reviewed[T]:
        """Publish a review and wait for what becomes of it: the first value of `read_outcome` for a record
        written since."""
        async with open_reader(self._cluster, [self._names[base] for base in ANSWERS], "end") as reader:
            most = BY_NAME[REVIEWS].max_message_bytes
            (placed,) = await publish(self._cluster, self._names[REVIEWS], [review], max_request_bytes=most)
            try:
                async with asyncio.timeout(patience_s):
                    return Reviewed(placed, await self._find_first(reader, partial(read_outcome, placed)))
            except TimeoutError:
                return Reviewed(placed, None)

    async def _find_first(
        self, reader: TopicReader, read_outcome: Callable[[StoredRecord], T | None]
    ) -> T | None:
        async for batch in reader.follow(None):
            for record in batch:
                outcome = read_outcome(record)
                if (
                    outcome is not None
                    and self._proofs.find_objection(self._bases[record.topic], record) is None
                ):
                    return outcome
        return None

    @asynccontextmanager
    async def _open_consumer(self, isolation: Isolation) -> AsyncIterator[AIOKafkaConsumer]:
        connection = Connection(self._cluster, isolation)
        try:
            yield await connection.connect()
        except KafkaError as error:
            raise make_unreachable(self._cluster, error) from error
        finally:
            await connection.close()
