"""Reclaim an expired producer id, but only if no other worker has written since.

The broker forgets a transactional id, and its epoch, after `transactional.id.expiration.ms` (7 days) without
a transaction. Then it accepts an InitProducerId of any worker. docs/decisions/0007-idle-partitions.md
explains how the three steps here prove that this worker still owns the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import aiokafka
from aiokafka.errors import InvalidProducerEpoch, InvalidProducerIdMapping, KafkaError, ProducerFenced
from aiokafka.producer.sender import InitPIDHandler
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactString, Int16, Int32, Int64, Schema, TaggedFields

from sluice.client.kafka_connection import build_client_arguments

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from sluice.client.kafka_connection import KafkaCluster

POLL_MS = 100


class ChangelogCut(KafkaError):  # type: ignore[misc]
    """The changelog ends before this worker's last committed record: it was lost or made anew."""


async def reclaim(written_since: Callable[[], Awaitable[bool]], init: Callable[[], Awaitable[None]]) -> None:
    """Own the partition again, or raise ProducerFenced and leave it to its owner.

    `written_since`: whether the changelog has any record after this worker's last one. `init`: an
    InitProducerId that the broker refuses if it knows another worker's id.
    """
    if await written_since():  # looked at first, so that an owner whose own id has expired is not fenced
        raise ProducerFenced("another worker has written to this partition since")
    try:
        await init()
    except InvalidProducerEpoch as refused:
        raise ProducerFenced("another worker has taken this partition over") from refused
    if await written_since():  # under the fence: from here on nobody else can write
        raise ProducerFenced("another worker has written to this partition in the meantime")


def is_forgotten(fault: BaseException | None) -> bool:
    """Whether the broker has forgotten this producer's id; aiokafka wraps its answer once or twice."""
    while fault is not None and not isinstance(fault, InvalidProducerIdMapping):
        fault = fault.__cause__
    return fault is not None


def is_news(record: logging.LogRecord) -> bool:
    """Whether a log line of aiokafka is news; the worker itself already logs a forgotten id."""
    return record.exc_info is None or not is_forgotten(record.exc_info[1])


async def was_written_since(cluster: KafkaCluster, changelog: aiokafka.TopicPartition, last: int) -> bool:
    """Whether there is any record after offset `last`, committed or not. Raises KafkaError, ChangelogCut.

    An uncommitted record counts too: its writer had a producer id of this partition.
    """
    async with aiokafka.AIOKafkaConsumer(
        **build_client_arguments(cluster),
        isolation_level="read_uncommitted",
        enable_auto_commit=False,
        fetch_max_wait_ms=POLL_MS,
    ) as consumer:
        consumer.assign([changelog])
        end = (await consumer.end_offsets([changelog]))[changelog]
        if end <= last:
            raise ChangelogCut(f"{changelog.topic} {changelog.partition} ends at {end}, {last} was committed")
        consumer.seek(changelog, last + 1)
        while await consumer.position(changelog) < end:  # markers take offsets and are not delivered
            if await consumer.getmany(timeout_ms=POLL_MS):
                return True
    return False


class InitProducerIdResponse_v3(Response):  # type: ignore[misc] # noqa: N801 - aiokafka's way of naming versions
    """As of Kafka 2.5 (KIP-360)."""

    API_KEY = 22
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class InitProducerIdRequest_v3(RequestStruct):  # type: ignore[misc] # noqa: N801 - likewise
    """aiokafka uses version 0, which cannot name the caller's former producer id."""

    FLEXIBLE_VERSION = True
    API_KEY = 22
    API_VERSION = 3
    RESPONSE_TYPE = InitProducerIdResponse_v3
    SCHEMA = Schema(
        ("transactional_id", CompactString("utf-8")),
        ("transaction_timeout_ms", Int32),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


ReclaimStruct: TypeAlias = InitProducerIdRequest_v3


class ReclaimRequest(Request[ReclaimStruct]):  # type: ignore[misc]
    """InitProducerId by the producer that had `producer_id` and `producer_epoch`.

    A broker that knows another id meanwhile refuses (INVALID_PRODUCER_EPOCH) and changes nothing.
    """

    API_KEY = 22

    def __init__(self, transactional_id: str, timeout_ms: int, producer_id: int, producer_epoch: int) -> None:
        self._fields = (transactional_id, timeout_ms, producer_id, producer_epoch)

    def build(self, request_struct_class: type[ReclaimStruct]) -> ReclaimStruct:
        """The request on the wire."""
        return request_struct_class(*self._fields, {})


class _ReclaimHandler(InitPIDHandler):  # type: ignore[misc]
    def __init__(self, sender: Any, had: tuple[int, int]) -> None:
        super().__init__(sender)
        self._had = had

    def create_request(self) -> ReclaimRequest:
        manager = self._sender._txn_manager
        return ReclaimRequest(manager.transactional_id, manager.transaction_timeout_ms, *self._had)


def claim_as(producer: aiokafka.AIOKafkaProducer, forgotten: aiokafka.AIOKafkaProducer) -> None:
    """Make `producer` request, when it starts, the id and epoch that `forgotten` had."""
    sender, manager = producer._sender, forgotten._txn_manager
    had = manager.producer_id, manager.producer_epoch

    async def ask(node_id: int) -> Any:
        return await _ReclaimHandler(sender, had).do(node_id)

    sender._do_init_pid = ask


def take_note(failed: aiokafka.AIOKafkaProducer) -> None:
    """Retrieve the exceptions that a failed producer keeps; otherwise asyncio logs them as never
    retrieved."""
    batches = [batch for waiting in failed._message_accumulator._batches.values() for batch in waiting]
    for future in (
        failed._txn_manager.wait_for_transaction_end(),
        *(batch._drain_waiter for batch in batches),
    ):
        if future is not None and future.done():  # None: no transaction has begun
            future.exception()
