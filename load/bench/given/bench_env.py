"""What one benchmark round needs: a broker, fresh topics, processes that end with it, and what it wrote.

And what sessions cost: memory each, cost per event beside many of them, and the restart with all of them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from load import ROOT
from load.bench.given import action_events, bench_policy
from sluice.adapters.kafka import kafka_topics
from sluice.cli.demo.throwaway_trust import ThrowawayTrust, publish_policy
from sluice_topics.catalog import ACTIONS, SESSIONS_CHANGELOG, VERDICTS
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    """Committed records of one topic: broker's append time (ms) and sizes (bytes) of each."""

    times_ms: list[int]
    values: list[int]
    headers: list[int]

    def rate(self) -> float:
        """Records per second between the 10th and the 90th percentile of append times: no start, no tail."""
        ordered = sorted(self.times_ms)
        low, high = int(len(ordered) * 0.1), int(len(ordered) * 0.9)
        return (high - low) / max(1e-3, (ordered[high] - ordered[low]) / 1000)


async def written(bootstrap: str, topic: str) -> WrittenRecords:
    """Everything committed in the topic now."""
    found = WrittenRecords([], [], [])
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


PARTITIONS = 8
READY_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Round:
    """One run of the worker, or of the bare loop, on topics of its own, under a policy signed for it."""

    bootstrap: str
    name: str
    work: Path
    trust: ThrowawayTrust = field(default_factory=ThrowawayTrust)

    @property
    def layout(self) -> TopicLayout:
        return TopicLayout(f"{self.name}.", self.name, PARTITIONS)

    def topic(self, base: str) -> str:
        return next(real for real, topic in self.layout.topics().items() if topic.name == base)

    def environment(self, **more: str) -> dict[str, str]:
        """The worker's settings."""
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")},
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": self.bootstrap,
            "SLUICE_KAFKA__TOPIC_PREFIX": self.layout.prefix,
            "SLUICE_WORKER__APP_ID": self.name,
            "SLUICE_WORKER__READY_FILE": str(self.ready_file),
            "SLUICE_WORKER__HALT_ON_OFFSET_GAP": "true",
            "SLUICE_LOGGING__LEVEL": "WARNING",
            **bench_policy.environment(self.trust),
            **more,
        }

    @property
    def ready_file(self) -> Path:
        return self.work / f"{self.name}.ready"

    async def create_topics(self, **policy: Any) -> None:
        """The round's topics, its policy in them. `policy`: as bench_policy.records has it."""
        await kafka_topics.create(self.bootstrap, self.layout, 1)
        records = bench_policy.records(self.trust, **policy)
        await publish_policy(self.bootstrap, self.layout.prefix, records)


@contextmanager
def process(
    arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A child that ends with the block: SIGTERM, then SIGKILL after 20 s."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    try:
        yield child
    finally:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(20)
        child.kill()
        child.wait()


@contextmanager
def worker(round_: Round, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`sluice worker`, started."""
    log = round_.work / f"{round_.name}.log"
    with process(["-m", "sluice", "worker"], round_.environment(**more), log) as child:
        yield child


async def until_ready(round_: Round, child: subprocess.Popen[bytes]) -> None:
    """Return when the worker decides. Raises RuntimeError when it does not in time or has ended."""
    deadline = time.monotonic() + READY_DEADLINE_S
    while not round_.ready_file.exists():
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{round_.name}: the worker is not ready (status {child.returncode})")
        await asyncio.sleep(0.02)


async def create_plain_topics(bootstrap: str, *names: str) -> None:
    """The bare loop's own topics, stamped by the broker like the worker's."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        config = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "4194304"}
        await admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=config) for name in names])
    finally:
        await admin.close()


async def publish(
    bootstrap: str,
    topic: str,
    messages: Iterable[tuple[bytes, bytes]],
    headers: Callable[[bytes, bytes], list[tuple[str, bytes]]] = lambda *_: [],
) -> None:
    """Publish as fast as it goes, acknowledged by all replicas. `headers` of a message by key and value."""
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, max_batch_size=262_144
    )
    await producer.start()
    pending: list[Any] = []
    try:
        for key, value in messages:
            pending.append(await producer.send(topic, value, key=key, headers=headers(key, value)))
            if len(pending) >= 20_000:
                await asyncio.gather(*pending)
                pending = []
        await asyncio.gather(*pending)
    finally:
        await producer.stop()


PAGE_KB = 4


async def resident_kb(round_: Round, sessions: int) -> int:
    """KiB resident in a worker two seconds after it decided an action in each of `sessions` sessions."""
    await round_.create_topics()
    with worker(round_) as child:
        await until_ready(round_, child)
        await _fill(round_, sessions, sessions, seed=1)
        await until_written(round_.bootstrap, round_.topic(VERDICTS), sessions)
        await asyncio.sleep(2)
        return resident_kb_of(child.pid)


async def cpu_per_event_us(round_: Round, filled: int, sessions: int, count: int) -> float:
    """CPU µs per event of `count` events over `sessions` sessions in a worker that holds `filled`."""
    await round_.create_topics()
    with worker(round_) as child:
        await until_ready(round_, child)
        await _fill(round_, filled, filled, seed=2)
        await until_written(round_.bootstrap, round_.topic(VERDICTS), filled)
        before = cpu_s(child.pid)
        await _fill(round_, count, sessions, seed=2)
        await until_written(round_.bootstrap, round_.topic(VERDICTS), filled + count)
        return (cpu_s(child.pid) - before) / count * 1e6


async def restart_s(round_: Round, sessions: int) -> tuple[float, float]:
    """Seconds from a worker's start to its first committed verdict, and of a bare read of its changelog."""
    await round_.create_topics()
    with worker(round_) as child:
        await until_ready(round_, child)
        await _fill(round_, sessions, sessions, seed=3)
        await until_written(round_.bootstrap, round_.topic(VERDICTS), sessions)
    await _fill(round_, 1, 1, seed=4)
    started = time.perf_counter()
    with worker(round_):
        await _first_new(round_)
        restarted = time.perf_counter() - started
    started = time.perf_counter()
    await written(round_.bootstrap, round_.topic(SESSIONS_CHANGELOG))
    return restarted, time.perf_counter() - started


async def _fill(round_: Round, count: int, sessions: int, seed: int) -> None:
    await publish(round_.bootstrap, round_.topic(ACTIONS), action_events.events(count, sessions, seed))


async def _first_new(round_: Round) -> None:
    """Return when a verdict is committed that is not there now."""
    reader = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=round_.bootstrap, isolation_level="read_committed", auto_offset_reset="latest"
    )
    await reader.start()
    reader.assign([aiokafka.TopicPartition(round_.topic(VERDICTS), n) for n in range(PARTITIONS)])
    try:
        await reader.seek_to_end()
        await asyncio.wait_for(reader.getone(), DEADLINE_S)
    finally:
        await reader.stop()


def resident_kb_of(pid: int) -> int:
    """KiB that a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has taken so far, of its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
