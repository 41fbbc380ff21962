"""Reading a run back from the broker: everything committed, and how many records more were produced."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer

from app.adapters.kafka.kafka_read import StoredRecord, open_reader, partitions_of
from app.core.decide.kinds import KINDS
from topics.catalog import (
    ADMITTED,
    DEAD_LETTERS,
    PROVENANCE_WANTED,
    SERVED,
    SOURCE_FEEDBACK,
    SOURCE_HISTORIES,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.sites.site import Site

READ_S = 120.0
INPUTS = tuple(kind.topic for kind in KINDS if kind.session)
TOLD = (ADMITTED, SOURCE_FEEDBACK, SOURCE_HISTORIES, SERVED, PROVENANCE_WANTED)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All records read_committed, each partition in offset order.

    `admitted`: memories released; `feedback` and `histories`: what was learnt of sources, and folded;
    `served`: what agents were let see of retrievals; `wanted`: references to resolve.

    `rolled_back`: records of the ledger and the changelog that only a read_uncommitted reader sees.
    """

    site: Site
    inputs: list[StoredRecord]
    ledger: list[StoredRecord]
    changelog: list[StoredRecord]
    rolled_back: int
    admitted: list[StoredRecord] = field(default_factory=list)
    feedback: list[StoredRecord] = field(default_factory=list)
    histories: list[StoredRecord] = field(default_factory=list)
    served: list[StoredRecord] = field(default_factory=list)
    wanted: list[StoredRecord] = field(default_factory=list)


async def gather(site: Site) -> Evidence:
    """Read the run back. Raises KafkaUnreachable and TimeoutError."""
    async with asyncio.timeout(READ_S):
        inputs = await _read(site, [site.real(topic) for topic in INPUTS])
        ledger = await _read(site, site.ledger)
        changelog = await _read(site, [site.changelog])
        produced = await _count_uncommitted(site, [*site.ledger, site.changelog])
        told = [await records_of(site, topic) for topic in TOLD]
    return Evidence(site, inputs, ledger, changelog, produced - len(ledger) - len(changelog), *told)


async def records_of(site: Site, base: str) -> list[StoredRecord]:
    """Everything that one topic holds now."""
    return await _read(site, [site.real(base)])


async def policy_refusals(site: Site) -> int:
    """How many dead letters there are in a run that publishes no unreadable input."""
    return len(await records_of(site, DEAD_LETTERS))


async def _read(site: Site, topics: Sequence[str]) -> list[StoredRecord]:
    async with open_reader(site.bootstrap_servers, topics, "beginning") as reader:
        return list(itertools.chain.from_iterable([batch async for batch in reader.to_end()]))


async def _count_uncommitted(site: Site, topics: Sequence[str]) -> int:
    partitions = await partitions_of(site.bootstrap_servers, topics)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=site.bootstrap_servers,
        isolation_level="read_uncommitted",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=200,
    )
    count = 0
    async with consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning(*partitions)
        while any([await consumer.position(one) < ends[one] for one in partitions]):
            fetched = await consumer.getmany(timeout_ms=200)
            count += sum(map(len, fetched.values()))
    return count
