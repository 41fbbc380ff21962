"""One partition's transactions: state, outputs and positions of a batch commit together or not at all."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiokafka
from aiokafka.errors import IllegalOperation

KafkaHeaders = list[tuple[str, bytes]]
BeforeCommit = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction writes. Topics are real names; `outputs` are topic, partition (None: the writer's
    own), key, value and headers; `offsets` go to the group of the worker."""

    changelog: Sequence[tuple[bytes, bytes | None]]
    outputs: Sequence[tuple[str, int | None, bytes, bytes, KafkaHeaders]]
    offsets: Mapping[aiokafka.TopicPartition, int] = field(default_factory=dict)


class TransactionOverdue(Exception):
    """A transaction has outlived its time-out, after which the broker aborts it: the worker is to stop."""


class RecordTooLarge(Exception):
    """A record is beyond what the producer may send: the bounds on state and records are wrong."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Time-outs in ms, sizes in bytes."""

    bootstrap_servers: str
    group_id: str
    changelog: str
    transaction_timeout_ms: int
    request_timeout_ms: int
    max_batch_bytes: int = 786_432
    max_request_bytes: int = 4_194_304


class Transactor:
    """The fenced producer of one partition number. `start` aborts whatever a previous owner left open."""

    def __init__(
        self, settings: TransactionSettings, number: int, before_commit: BeforeCommit | None = None
    ) -> None:
        self._settings = settings
        self._number = number
        self._before_commit = before_commit
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap_servers,
            transactional_id=f"{settings.group_id}-{number}",
            transaction_timeout_ms=settings.transaction_timeout_ms,
            request_timeout_ms=settings.request_timeout_ms,
            acks="all",
            max_batch_size=settings.max_batch_bytes,
            max_request_size=settings.max_request_bytes,
        )

    async def start(self) -> None:
        """InitProducerId: from here on no earlier owner of this number can commit. Raises KafkaError."""
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def write(self, batch: Batch) -> int | None:
        """Commit the batch; the last changelog offset written. Raises KafkaError, ProducerFenced above all.

        Raises TransactionOverdue too: after an outage a client can wait for what no broker owes it any more.
        """
        timeout_s = self._settings.transaction_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await self._write(batch)
        except TimeoutError as waited:
            raise TransactionOverdue(
                f"partition {self._number}: not committed after {timeout_s:g} s, when the broker aborts it"
            ) from waited

    async def _write(self, batch: Batch) -> int | None:
        """Every send is awaited before the commit, because a failed one does not fail the commit, and before
        the offsets, because the broker refuses those beside a produce to a partition it is still adding.
        """
        producer = self._producer
        await producer.begin_transaction()
        place = (self._settings.changelog, self._number)
        changelog = await self._send(place, [(key, value, []) for key, value in batch.changelog])
        try:
            futures = await self._send_outputs(batch)
        except IllegalOperation:
            await asyncio.gather(*changelog)  # fenced between two sends: the first one's future says so
            raise
        done = await asyncio.gather(*changelog, *futures)
        if batch.offsets:
            await producer.send_offsets_to_transaction(dict(batch.offsets), self._settings.group_id)
        if self._before_commit is not None:
            await self._before_commit(self._number)
        await producer.commit_transaction()
        return self._last_offset(done[: len(changelog)], len(batch.changelog))

    async def _send_outputs(self, batch: Batch) -> list[asyncio.Future[Any]]:
        by_place: dict[tuple[str, int], list[tuple[bytes, bytes | None, KafkaHeaders]]] = defaultdict(list)
        for topic, partition, key, value, headers in batch.outputs:
            place = (topic, self._number if partition is None else partition)
            by_place[place].append((key, value, headers))
        return [future for place, records in by_place.items() for future in await self._send(place, records)]

    async def _send(
        self, place: tuple[str, int], records: Sequence[tuple[bytes, bytes | None, KafkaHeaders]]
    ) -> list[asyncio.Future[Any]]:
        futures: list[asyncio.Future[Any]] = []
        builder = self._producer.create_batch()
        for key, value, headers in records:
            if not self._append(builder, key, value, headers):
                futures.append(await self._submit(builder, place))
                builder = self._producer.create_batch()
                if not self._append(builder, key, value, headers):
                    raise RecordTooLarge(f"{place[0]}: {len(value or b'')} bytes")
        if builder.record_count():
            futures.append(await self._submit(builder, place))
        return futures

    def _append(self, builder: Any, key: bytes, value: bytes | None, headers: KafkaHeaders) -> bool:
        if len(value or b"") > self._settings.max_request_bytes - 65_536:
            raise RecordTooLarge(f"{len(value or b'')} bytes")
        return builder.append(key=key, value=value, timestamp=None, headers=headers) is not None

    async def _submit(self, builder: Any, place: tuple[str, int]) -> asyncio.Future[Any]:
        topic, partition = place
        sent: asyncio.Future[Any] = await self._producer.send_batch(builder, topic, partition=partition)
        return sent

    @staticmethod
    def _last_offset(done: Sequence[Any], count: int) -> int | None:
        return None if not done else int(done[0].offset) + count - 1
