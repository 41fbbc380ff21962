"""Tree heads on a second cluster, which belongs to other people than the first.

That cluster is not believed, and holds up no head of the first. What lies on its topic counts only if it is a
head of the first topic, or one of our keys signed it: then it shows that the first topic was changed. All
else is passed over. It is read as uncommitted, so that nobody's open transaction keeps a reader waiting, and
on from where the last time ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition

from sluice.adapters.kafka.kafka_read import list_partitions
from sluice.client.kafka_reading import open_consumer, read_to
from sluice.client.kafka_writing import KafkaWriter, Outgoing
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.trust.dsse import read_envelope
from sluice.core.trust.tree_heads import HeadRefused, digest_head, open_head
from sluice_topics.catalog import MAX_CONTROL_MESSAGE_BYTES, TREE_HEADS
from sluice_topics.json_text import Unreadable

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.core.trust.tree_heads import HeadKeys
    from sluice_topics.audience import Audience

log = logging.getLogger(__name__)

_START_S = 120.0
"""A start waits so long for what lies there; what is read later is compared then."""
_READ_AT_ONCE = 64


class HeadCluster:
    """Publishes each head on a second cluster too, in its order. What could not be sent is tried again with
    each `deliver`; a signer that starts anew sends what comes after the last one there."""

    def __init__(
        self, cluster: KafkaCluster, prefix: str, trusted: tuple[HeadKeys, Audience], timeout_s: float
    ) -> None:
        """`prefix`: of the topic there, which must exist (`sluice topics create --only gate.tree_heads`);
        `trusted`: the keys and the installation whose heads count."""
        self._cluster = cluster
        self._part = TopicPartition(f"{prefix}{TREE_HEADS}", 0)
        self._keys, self._audience = trusted
        self._timeout_s = timeout_s
        self._bounds = {"request_timeout_ms": round(timeout_s * 1000)}
        self._digests: list[str] = []
        self._numbers: dict[str, int] = {}
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._offset = 0

    def take(self, number: int, digest: str, value: bytes) -> None:
        """See HeadCopies."""
        self._digests.append(digest)
        self._numbers[digest] = number
        self._waiting.append((number, value))

    async def require_no_later(self, number: int) -> None:
        """See HeadCopies; of a cluster that is away, with the first `deliver` that reads it. Raises
        HeadRefused."""
        await self._attempt(self._read, _START_S, f"whether the topic ends with head {number} is not known")

    async def deliver(self) -> None:
        """Send what waits. A cluster that is away is named in the log, and holds nothing up for long. Raises
        HeadRefused."""
        if self._waiting:
            what = f"head {self._waiting[0][0]} is not on the second cluster"
            await self._attempt(self._send, self._timeout_s, what)

    async def _attempt(self, work: Any, limit_s: float, otherwise: str) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await work()
        except HeadRefused:
            raise
        except Exception as error:  # noqa: BLE001 - whatever that cluster's bytes raise in Kafka's client
            log.warning("%s: %s: %r", otherwise, self._cluster, error)

    async def _read(self) -> None:
        """Compare what came since the last time. Raises HeadRefused."""
        await list_partitions(self._cluster, [self._part.topic])
        async with open_consumer(self._cluster, "read_uncommitted", **self._bounds) as consumer:
            await self._read_on(consumer)

    async def _read_on(self, consumer: AIOKafkaConsumer) -> None:
        consumer.assign([self._part])
        end = (await consumer.end_offsets([self._part]))[self._part]
        if end < self._offset:
            what = "lost its end: what is missing there is sent with the next start"
            log.warning("%s of %s %s", self._part.topic, self._cluster, what)
            self._offset = 0
        consumer.seek(self._part, self._offset)
        async for batch in read_to(consumer, {self._part: end}, _READ_AT_ONCE):
            self._compare(batch)
            await asyncio.sleep(0)
        self._offset = max(self._offset, await consumer.position(self._part))

    def _compare(self, messages: Any) -> None:
        strange = 0
        for message in messages:
            envelope = read_envelope(message.value or b"")
            digest = None if isinstance(envelope, Unreadable) else digest_head(envelope)
            number = self._numbers.get(digest or "")
            if number is not None:
                while self._waiting and self._waiting[0][0] <= number:
                    self._waiting.popleft()
            elif digest is not None and self._is_ours(message):
                self._refuse(message)
            else:
                strange += 1
            self._offset = message.offset + 1
        if strange:
            where = f"{self._part.topic}:0 of {self._cluster}, before offset {self._offset}"
            log.warning("%s: %d records that no key of ours signed: who writes there?", where, strange)

    def _is_ours(self, message: Any) -> bool:
        """Whether it is a head of this installation that one of the keys signed."""
        try:
            envelope, head = open_head(message.value, 0)
        except HeadRefused:
            return False
        signed_at_ms = max(read_milliseconds(head.signed_at), message.timestamp)
        return (head.installation, head.topic_prefix) == self._audience and (
            self._keys.find_objection(envelope, signed_at_ms) is None
        )

    def _refuse(self, message: Any) -> None:
        """A head that was signed with our key, and is none of the first topic's."""
        number = open_head(message.value, 0)[1].number
        where = f"{self._cluster} ({self._part.topic}:0:{message.offset})"
        if number <= len(self._digests):
            raise HeadRefused(f"head {number} is another than that on {where}")
        raise HeadRefused(
            f"the topic ends with head {len(self._digests)}, and {where} has head {number}: the topic was "
            "cut off"
        )

    async def _send(self) -> None:
        """What is there is read on first: an answer that was lost may have been a success."""
        await self._read()
        if not self._waiting:
            return
        size = MAX_CONTROL_MESSAGE_BYTES
        async with KafkaWriter(self._cluster, max_request_size=size, **self._bounds) as writer:
            while self._waiting:
                number, value = self._waiting[0]
                await writer.write(self._part.topic, [Outgoing(b"%d" % number, value)], partition=0)
                self._waiting.popleft()

    async def close(self) -> None:
        """Nothing is held."""
