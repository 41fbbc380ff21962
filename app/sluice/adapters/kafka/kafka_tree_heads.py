"""The head signer on a broker: it follows the ledger as committed, and publishes signed tree heads.

What a head is and when none may be signed is said in sluice/core/trust/tree_heads.py. Here is what a kill at
any moment must not break: a head is published in a transaction of one fenced writer, and the next one is made
only from what the topic then has. So of two signers the earlier one is refused, a head that was not committed
is seen by nobody, and no two heads have one number.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aiokafka.errors import KafkaError, ProducerFenced

from sluice.adapters.kafka.kafka_consumers import KafkaControlReader, read_control
from sluice.adapters.kafka.kafka_read import (
    list_partitions,
    make_unreachable,
    open_reader,
)
from sluice.client.kafka_writing import KafkaWriter, Outgoing
from sluice.core.trust.tree_heads import (
    HeadRefused,
    LedgerBroken,
    LedgerTree,
    read_link,
    sign_head,
)
from sluice_topics.access import HEAD_WRITER
from sluice_topics.catalog import CATALOG, MAX_CONTROL_MESSAGE_BYTES, TREE_HEADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.adapters.kafka.kafka_read import StoredRecord, TopicReader
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.registry.keys import SigningKey
    from sluice.core.trust.tree_heads import HeadSeries
    from sluice_topics.records.tree_heads import TreeHead

log = logging.getLogger(__name__)

GAP_S = 60.0
"""For so long a record's predecessors, in other topics, may not be there yet."""
_TRANSACTION_TIMEOUT_MS = 30_000
_READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """A head is signed when there is something new and so much time has passed since the last, or so many
    records have come."""

    interval_s: float
    max_events: int


async def read_heads(cluster: KafkaCluster, prefix: str) -> list[InputRecord]:
    """Every record of the heads' topic, as committed. Raises UnknownTopics and KafkaUnreachable."""
    return await read_control(cluster, {f"{prefix}{TREE_HEADS}": TREE_HEADS})


class HeadCopies(Protocol):
    """Where heads are sent besides the topic. They raise HeadRefused where what they have is not what the
    topic has, and OSError."""

    def take(self, number: int, digest: str, value: bytes) -> None:
        """Take a head that is published: the first ones again after a restart. `value`: the envelope."""

    async def require_no_later(self, number: int) -> None:
        """The topic ends with the head of this number, and nobody else adds to it. Called once, after the
        first ones were taken."""

    async def deliver(self) -> None:
        """Send on what was taken and is not sent yet, within seconds. One that cannot be sent is tried again
        with the next call."""

    async def close(self) -> None:
        """Nothing more comes."""


class HeadObserver(Protocol):
    """Is told how the signer does. It must return at once and not raise."""

    def note_head(self, signed_at_ms: int, *, is_own: bool) -> None:
        """A head is on the topic, which this signer (`is_own`) or an earlier one signed."""

    def note_progress(self, unsigned: int, *, is_whole: bool) -> None:
        """So many records that were read are in no head yet; `is_whole`: what lay there at the start is
        read."""


class _Desk(NamedTuple):
    """What signing takes: the fenced writer, the topic's reader, and what was read of the ledger."""

    writer: KafkaWriter
    heads: KafkaControlReader
    tree: LedgerTree


class HeadSigner:
    """Of one installation; run one."""

    def __init__(
        self,
        cluster: KafkaCluster,
        series: HeadSeries,
        keys: Sequence[SigningKey],
        limits: HeadLimits,
        copies: Sequence[HeadCopies] = (),
        observer: HeadObserver | None = None,
    ) -> None:
        """`series`: empty, with the keys and the installation whose heads count; `keys` sign."""
        self._cluster = cluster
        self._series = series
        self._keys = keys
        self._limits = limits
        self._copies = copies
        self._observer = observer
        self._prefix = series.audience.topic_prefix
        self._topic = f"{self._prefix}{TREE_HEADS}"
        self._stopped = False
        self.signed = 0

    def stop(self) -> None:
        """End `run` soon. What is new is signed before, unless the ledger is not read whole yet."""
        self._stopped = True

    async def run(self, *, once: bool = False) -> TreeHead | None:
        """Sign until stopped; `once`: sign what lies there now. The last head, None where there is none.

        Raises LedgerBroken and HeadRefused where nothing may be signed, UnknownTopics, KafkaUnreachable, and
        OSError of a copy.
        """
        ledger = [f"{self._prefix}{topic.name}" for topic in CATALOG if topic.ledger]
        parts = await list_partitions(self._cluster, [self._topic, *ledger])
        heads = KafkaControlReader(self._cluster, {self._topic: TREE_HEADS})
        try:
            bounds = {
                "transaction_timeout_ms": _TRANSACTION_TIMEOUT_MS,
                "max_request_size": MAX_CONTROL_MESSAGE_BYTES,
            }
            name = f"{self._prefix}{HEAD_WRITER}"
            async with KafkaWriter(self._cluster, transactional_id=name, **bounds) as writer:
                self._take_heads(await heads.to_end())
                for copies in self._copies:
                    await copies.require_no_later(self._series.number)
                tree = LedgerTree(1 + max(part.partition for part in parts), self._series.last)
                async with open_reader(self._cluster, ledger, "beginning") as reader:
                    await self._read(reader, _Desk(writer, heads, tree), once=once)
                return self._series.last
        except KafkaError as error:
            raise make_unreachable(self._cluster, error) from error
        finally:
            await heads.close()
            for copies in self._copies:
                await copies.close()

    async def _read(self, reader: TopicReader, desk: _Desk, *, once: bool) -> None:
        signed_at = gap_at = time.monotonic()
        gap: str | None = None
        is_whole = False
        async for batch in reader.follow(None):
            await self._take(desk.tree, batch)
            self._note_progress(desk, is_whole=is_whole)
            now = time.monotonic()
            if not is_whole:
                is_whole = await reader.has_passed_ends()
                if is_whole:
                    desk.tree.require_published()
                    await self._sign(desk)
                    signed_at = now
                if self._stopped or (once and is_whole):
                    return
                continue
            missing = desk.tree.find_gap()
            if missing != gap:
                gap, gap_at = missing, now
            if gap is not None and now - gap_at > GAP_S:
                raise LedgerBroken(gap)
            is_due = now - signed_at >= self._limits.interval_s
            if is_due or desk.tree.unsigned >= self._limits.max_events or self._stopped:
                await self._sign(desk)
                signed_at = now
            if self._stopped:
                return

    async def _take(self, tree: LedgerTree, batch: Iterable[StoredRecord]) -> None:
        for count, record in enumerate(batch, start=1):
            try:
                tree.trees[record.partition].take(read_link(record.value))
            except LedgerBroken as error:
                coordinates = f"{record.topic}:{record.partition}:{record.offset}"
                raise LedgerBroken(f"{error} ({coordinates})") from None
            if count % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _sign(self, desk: _Desk) -> None:
        """Publish a head if there is something new. Raises HeadRefused and KafkaError."""
        if desk.tree.unsigned:
            await self._publish(desk)
        self._note_progress(desk, is_whole=True)
        for copies in self._copies:
            await copies.deliver()

    def _note_progress(self, desk: _Desk, *, is_whole: bool) -> None:
        if self._observer is not None:
            self._observer.note_progress(desk.tree.unsigned, is_whole=is_whole)

    async def _publish(self, desk: _Desk) -> None:
        head = desk.tree.make_head(self._series, time.time_ns() // 1_000_000)
        value = sign_head(head, self._keys).encode()
        try:
            await desk.writer.write_together([(self._topic, Outgoing(b"%d" % head.number, value))], 0)
        except ProducerFenced:
            raise HeadRefused("another head signer took over: run one for each installation") from None
        written = await desk.heads.to_end()
        if [record.value for record in written] != [value]:
            raise HeadRefused(f"{self._topic} has other records than head {head.number}: who else writes?")
        self._take_heads(written, are_own=True)
        desk.tree.note_published(head)
        self.signed += 1
        log.info("head %d signs %d records", head.number, head.size)

    def _take_heads(self, records: Sequence[InputRecord], *, are_own: bool = False) -> None:
        for count, record in enumerate(records, start=1):
            try:
                if count < len(records):
                    self._series.link(record.value)  # the last one vouches for it
                else:
                    self._series.take(record.value, record.timestamp_ms)
            except HeadRefused as error:
                raise HeadRefused(f"{error} ({self._topic}:0:{record.offset})") from None
            for copies in self._copies:
                copies.take(self._series.number, self._series.digest, record.value or b"")
        if records and self._observer is not None:
            self._observer.note_head(self._series.signed_at_ms, is_own=are_own)
