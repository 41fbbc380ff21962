"""What sessions cost: memory each, cost per event beside many of them, and the restart with all of them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiokafka

from load.bench.given import actions, bench_env
from load.bench.given.bench_env import PARTITIONS, Round
from topics.catalog import ACTIONS, SESSIONS_CHANGELOG, VERDICTS

PAGE_KB = 4


async def resident_kb(round_: Round, sessions: int) -> int:
    """KiB resident in a worker two seconds after it decided an action in each of `sessions` sessions."""
    await round_.create_topics()
    with bench_env.worker(round_) as child:
        await bench_env.until_ready(round_, child)
        await _fill(round_, sessions, sessions, seed=1)
        await bench_env.until_written(round_.bootstrap, round_.topic(VERDICTS), sessions)
        await asyncio.sleep(2)
        return resident_kb_of(child.pid)


async def cpu_per_event_us(round_: Round, filled: int, sessions: int, count: int) -> float:
    """CPU µs per event of `count` events over `sessions` sessions in a worker that holds `filled`."""
    await round_.create_topics()
    with bench_env.worker(round_) as child:
        await bench_env.until_ready(round_, child)
        await _fill(round_, filled, filled, seed=2)
        await bench_env.until_written(round_.bootstrap, round_.topic(VERDICTS), filled)
        before = cpu_s(child.pid)
        await _fill(round_, count, sessions, seed=2)
        await bench_env.until_written(round_.bootstrap, round_.topic(VERDICTS), filled + count)
        return (cpu_s(child.pid) - before) / count * 1e6


async def restart_s(round_: Round, sessions: int) -> tuple[float, float]:
    """Seconds from a worker's start to its first committed verdict, and of a bare read of its changelog."""
    await round_.create_topics()
    with bench_env.worker(round_) as child:
        await bench_env.until_ready(round_, child)
        await _fill(round_, sessions, sessions, seed=3)
        await bench_env.until_written(round_.bootstrap, round_.topic(VERDICTS), sessions)
    await _fill(round_, 1, 1, seed=4)
    started = time.perf_counter()
    with bench_env.worker(round_):
        await _first_new(round_)
        restarted = time.perf_counter() - started
    started = time.perf_counter()
    await bench_env.written(round_.bootstrap, round_.topic(SESSIONS_CHANGELOG))
    return restarted, time.perf_counter() - started


async def _fill(round_: Round, count: int, sessions: int, seed: int) -> None:
    await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), actions.events(count, sessions, seed))


async def _first_new(round_: Round) -> None:
    """Return when a verdict is committed that is not there now."""
    reader = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=round_.bootstrap, isolation_level="read_committed", auto_offset_reset="latest"
    )
    await reader.start()
    reader.assign([aiokafka.TopicPartition(round_.topic(VERDICTS), n) for n in range(PARTITIONS)])
    try:
        await reader.seek_to_end()
        await asyncio.wait_for(reader.getone(), bench_env.DEADLINE_S)
    finally:
        await reader.stop()


def resident_kb_of(pid: int) -> int:
    """KiB that a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has taken so far, of its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
