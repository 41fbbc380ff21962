"""One partition's transactions: state, outputs and positions of a batch commit together or not at all."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiokafka
from aiokafka.client import CoordinationType
from aiokafka.errors import IllegalOperation, KafkaError
from aiokafka.producer.sender import BACKOFF_OVERRIDE, AddPartitionsToTxnHandler

from sluice.client.kafka_connection import KafkaCluster, build_client_arguments
from sluice.stream.engine import reclaim
from sluice.stream.process import Explained

log = logging.getLogger(__name__)

MARKERS_S = 0.004
"""Until the broker is asked again if it is still writing the markers of the transaction before."""

KafkaHeaders = list[tuple[str, bytes]]
BeforeCommit = Callable[[int], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """The content of one transaction. Topics are real names; `outputs` are topic, partition (None: the
    writer's own), key, value and headers; `offsets` go to the group of the worker, which costs two more round
    trips."""

    changelog: Sequence[tuple[bytes, bytes | None]]
    outputs: Sequence[tuple[str, int | None, bytes, bytes, KafkaHeaders]]
    offsets: Mapping[aiokafka.TopicPartition, int] = field(default_factory=dict)


class TransactionOverdue(Explained):
    """A transaction has exceeded its time-out, after which the broker aborts it: the worker must stop."""


class RecordTooLarge(Explained):
    """A record is larger than the producer may send: the bounds on state and records are wrong."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Time-outs in ms, sizes in bytes."""

    cluster: KafkaCluster
    group_id: str
    changelog: str
    transaction_timeout_ms: int
    request_timeout_ms: int
    max_batch_bytes: int = 786_432
    max_request_bytes: int = 4_194_304


class Transactor:
    """The fenced producer of one partition number. `start` aborts a transaction that an earlier owner left
    open."""

    def __init__(
        self, settings: TransactionSettings, number: int, before_commit: BeforeCommit | None = None
    ) -> None:
        self._settings = settings
        self._number = number
        self._before_commit = before_commit
        self._last: int | None = None
        self._begun = False
        self._producer = self._new_producer()

    async def start(self) -> None:
        """InitProducerId: from here on no earlier owner of this number can commit. Raises KafkaError."""
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def begin(self, topics: Iterable[str]) -> None:
        """Begin the next transaction, and let the broker add this number of the changelog and of `topics`
        (real names) to it while its batch gathers. So `write` need not wait for this round trip. If it fails,
        `write` raises its error."""
        await self._producer.begin_transaction()
        self._begun = True
        for topic in (self._settings.changelog, *topics):
            partition = aiokafka.TopicPartition(topic, self._number)
            self._producer._txn_manager.maybe_add_partition_to_txn(partition)

    async def write(self, batch: Batch) -> int | None:
        """Commit the batch; the last changelog offset written. Raises KafkaError, ProducerFenced above all.

        If the producer id expired while nothing was written, it is reclaimed, if this worker still owns the
        partition. Raises TransactionOverdue too: after an outage a client may wait for an answer that never
        comes.
        """
        try:
            last = await self._limit_time(self._write(batch))
        except KafkaError as fault:
            reclaim.take_note(self._producer)
            if self._last is None or not reclaim.is_forgotten(fault):
                raise
            await self._limit_time(self._reclaim(self._last))
            last = await self._limit_time(self._write(batch))
        self._last = self._last if last is None else last
        return last

    async def _limit_time(self, work: Coroutine[None, None, T]) -> T:
        timeout_s = self._settings.transaction_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except TimeoutError as waited:
            raise TransactionOverdue(
                f"partition {self._number}: not committed after {timeout_s:g} s, when the broker aborts it"
            ) from waited

    async def _reclaim(self, last: int) -> None:
        """Raises ProducerFenced, ChangelogCut, KafkaError."""
        settings, forgotten = self._settings, self._producer
        changelog = aiokafka.TopicPartition(settings.changelog, self._number)
        self._producer, self._begun = self._new_producer(), False
        reclaim.claim_as(self._producer, forgotten)
        await forgotten.stop()
        await reclaim.reclaim(
            lambda: reclaim.was_written_since(settings.cluster, changelog, last), self._producer.start
        )
        log.warning(
            "partition %d was idle until the broker forgot its producer id; nobody else has written, "
            "so it goes on under a new one",
            self._number,
        )

    def _new_producer(self) -> aiokafka.AIOKafkaProducer:
        settings = self._settings
        producer = aiokafka.AIOKafkaProducer(
            **build_client_arguments(settings.cluster),
            transactional_id=f"{settings.group_id}-{self._number}",
            transaction_timeout_ms=settings.transaction_timeout_ms,
            request_timeout_ms=settings.request_timeout_ms,
            acks="all",
            max_batch_size=settings.max_batch_bytes,
            max_request_size=settings.max_request_bytes,
        )
        _ask_again_soon(producer)
        return producer

    async def _write(self, batch: Batch) -> int | None:
        """Write and commit. Every send is awaited before the commit, because a failed send does not fail the
        commit, and before the offsets, because the broker refuses offsets while it is still adding a
        partition for a produce.
        """
        producer = self._producer
        sent: list[asyncio.Future[Any]] = []
        if not self._begun:
            await self.begin(())
        self._begun = False
        partition = (self._settings.changelog, self._number)
        try:
            await self._send(partition, [(key, value, []) for key, value in batch.changelog], sent)
            await self._send_outputs(batch, sent)
        except IllegalOperation:
            await asyncio.gather(*sent)  # fenced between two sends: the first one's future says so
            await producer._txn_manager.wait_for_transaction_end()  # before the first: the transaction's does
            raise
        done = await asyncio.gather(*sent)
        if batch.offsets:
            await producer.send_offsets_to_transaction(dict(batch.offsets), self._settings.group_id)
        if self._before_commit is not None:
            await self._before_commit(self._number)
        await producer.commit_transaction()
        return int(done[0].offset) + len(batch.changelog) - 1 if batch.changelog else None

    async def _send_outputs(self, batch: Batch, sent: list[asyncio.Future[Any]]) -> None:
        by_place: dict[tuple[str, int], list[tuple[bytes, bytes | None, KafkaHeaders]]] = defaultdict(list)
        for topic, partition, key, value, headers in batch.outputs:
            topic_partition = (topic, self._number if partition is None else partition)
            by_place[topic_partition].append((key, value, headers))
        for topic_partition, records in by_place.items():
            await self._send(topic_partition, records, sent)

    async def _send(
        self,
        partition: tuple[str, int],
        records: Sequence[tuple[bytes, bytes | None, KafkaHeaders]],
        sent: list[asyncio.Future[Any]],
    ) -> None:
        builder = self._producer.create_batch()
        for key, value, headers in records:
            if not self._append(builder, key, value, headers):
                sent.append(await self._submit(builder, partition))
                builder = self._producer.create_batch()
                if not self._append(builder, key, value, headers):
                    raise RecordTooLarge(f"{partition[0]}: {len(value or b'')} bytes")
        if builder.record_count():
            sent.append(await self._submit(builder, partition))

    def _append(self, builder: Any, key: bytes, value: bytes | None, headers: KafkaHeaders) -> bool:
        if len(value or b"") > self._settings.max_request_bytes - 65_536:
            raise RecordTooLarge(f"{len(value or b'')} bytes")
        return builder.append(key=key, value=value, timestamp=None, headers=headers) is not None

    async def _submit(self, builder: Any, topic_partition: tuple[str, int]) -> asyncio.Future[Any]:
        topic, partition = topic_partition
        sent: asyncio.Future[Any] = await self._producer.send_batch(builder, topic, partition=partition)
        return sent


class _AddPartitions(AddPartitionsToTxnHandler):  # type: ignore[misc]
    """Asks again soon if the broker is still writing the markers of the transaction before; aiokafka itself
    waits 20 ms."""

    def handle_response(self, resp: Any) -> float | None:
        backoff: float | None = super().handle_response(resp)
        return MARKERS_S if backoff == BACKOFF_OVERRIDE else backoff


def _ask_again_soon(producer: aiokafka.AIOKafkaProducer) -> None:
    sender = producer._sender

    async def add(places: Any) -> Any:
        manager = sender._txn_manager
        node_id = await sender._find_coordinator(CoordinationType.TRANSACTION, manager.transactional_id)
        return await _AddPartitions(sender, places).do(node_id)

    sender._do_add_partitions_to_txn = add
