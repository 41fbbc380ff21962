"""Reading what a round wrote: sizes and append times of committed records."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import aiokafka

DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Written:
    """Committed records of one topic: broker's append time (ms) and sizes (bytes) of each."""

    times_ms: list[int]
    values: list[int]
    headers: list[int]

    def rate(self) -> float:
        """Records per second between the 10th and the 90th percentile of append times: no start, no tail."""
        ordered = sorted(self.times_ms)
        low, high = int(len(ordered) * 0.1), int(len(ordered) * 0.9)
        return (high - low) / max(1e-3, (ordered[high] - ordered[low]) / 1000)


async def written(bootstrap: str, topic: str) -> Written:
    """Everything committed in the topic now."""
    found = Written([], [], [])
    for record in await committed(bootstrap, topic):
        found.times_ms.append(record.timestamp)
        found.values.append(len(record.value or b""))
        found.headers.append(sum(len(k) + len(v) for k, v in record.headers))
    return found


async def committed(bootstrap: str, topic: str) -> list[Any]:
    """The records themselves."""
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=8_388_608,
    )
    await consumer.start()
    found: list[Any] = []
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += records
    finally:
        await consumer.stop()
    return found


async def until_written(bootstrap: str, topic: str, count: int) -> None:
    """Return when the topic's log has grown by at least `count` records, by its end offsets."""
    consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=bootstrap)
    await consumer.start()
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            ends = await consumer.end_offsets(consumer.assignment())
            if sum(ends.values()) >= count:
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"{topic}: {count} records did not come in {DEADLINE_S} s")
    finally:
        await consumer.stop()


def mean(numbers: list[int]) -> int:
    """Rounded mean, 0 for none."""
    return round(sum(numbers) / len(numbers)) if numbers else 0
