"""Two workers under one supervisor beside one worker, by turns, and what the broker leaves of the machine."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from load.bench.fixtures import action_events, bench_env
from load.bench.fixtures.bench_env import Round
from load.bench.measurement import report
from load.bench.workers.throughput import EVENTS, SESSIONS
from load.installations.broker_cluster import NODES, launch_cluster
from sluice.broker import locate
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench
    from load.installations.broker_cluster import BrokerCluster

BROKER = b"kafka.Kafka"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Use:
    """Events per second, and the cores used meanwhile: by workers, broker and all of the machine."""

    rate: float
    workers: float
    broker: float
    machine: float


async def measure_use(round_: Round, processes: int, count: int) -> Use:
    """So many workers on a preloaded topic."""
    await round_.create_topics()
    events = action_events.events(count, SESSIONS, time.time_ns() % 10**9)
    await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), events)
    words = ["-m", "sluice", "worker", "--processes", str(processes)]
    log = round_.work / f"{round_.name}.log"
    with bench_env.process(words, round_.environment(), log) as child:
        await bench_env.wait_until_ready(round_, child)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), count // 10)
        workers = _list_workers(child.pid)
        brokers = _list_brokers(round_.work)
        before = _read_use(workers, brokers)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), count * 9 // 10)
        after = _read_use(workers, brokers)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), count)
    seconds = after[0] - before[0]
    cores = [(b - a) / seconds for a, b in zip(before[1:], after[1:], strict=True)]
    return Use((await bench_env.read_written(round_.bootstrap, round_.topic(VERDICTS))).rate(), *cores)


async def measure_processes(bench: Bench) -> list[Measurement]:
    """One worker and two, by turns."""
    count = bench.extent.scale(EVENTS)
    single, two = [], []
    for _ in bench.rounds:
        single.append(await measure_use(bench.round("processes"), 1, count))
        two.append(await measure_use(bench.round("processes"), 2, count))
    return [
        report("one process", [use.rate for use in single], "events/s", "yardstick"),
        report("two processes", [use.rate for use in two], "events/s"),
        report("two / one", [b.rate / a.rate for a, b in zip(single, two, strict=True)], ""),
        *_report_cores("one process", single),
        *_report_cores("two processes", two),
    ]


async def measure_replicated(bench: Bench) -> list[Measurement]:
    """One worker on three brokers, with three replicas of every topic, of which two must be in sync."""
    count = bench.extent.scale(EVENTS)
    work = bench.work / "replicated"
    cluster = await asyncio.to_thread(launch_cluster, work / "brokers", locate.JARS)
    try:
        uses = [await measure_use(_make_round(cluster, work), 1, count) for _ in bench.rounds]
    finally:
        cluster.close()
    who = "one process, three replicas"
    return [report(who, [use.rate for use in uses], "events/s"), *_report_cores(who, uses)]


def _make_round(cluster: BrokerCluster, work: Path) -> Round:
    name = f"bench-replicated-{time.time_ns() // 10**6}"
    return Round(cluster.bootstrap_servers, name, work, replication=NODES)


def _report_cores(who: str, uses: list[Use]) -> list[Measurement]:
    return [
        report(f"{who}: cores used by the workers", [use.workers for use in uses], "cores"),
        report(f"{who}: cores used by the broker", [use.broker for use in uses], "cores"),
        report(f"{who}: cores used by the whole machine", [use.machine for use in uses], "cores"),
        report(f"{who}: worker CPU an event", [1e6 * use.workers / use.rate for use in uses], "us"),
        report(f"{who}: broker CPU an event", [1e6 * use.broker / use.rate for use in uses], "us"),
    ]


def _list_workers(pid: int) -> list[int]:
    """The workers of a supervisor, or the one worker itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in children if b"worker" in _read_command(int(child))] or [pid]


def _read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _list_brokers(work: Path) -> list[int]:
    """The brokers whose files lie under this folder."""
    running = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    commands = {pid: _read_command(pid) for pid in running}
    return [pid for pid, command in commands.items() if BROKER in command and os.fsencode(work) in command]


def _read_use(workers: list[int], brokers: list[int]) -> tuple[float, float, float, float]:
    """The time, and CPU seconds so far: of the workers, of the brokers, of the machine."""
    cpu = [sum(map(bench_env.cpu_s, pids)) for pids in (workers, brokers)]
    return time.monotonic(), cpu[0], cpu[1], _read_machine_s()


def _read_machine_s() -> float:
    """CPU seconds of all processes, without idle time and time that waits for disks."""
    fields = [
        int(field) for field in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    ]
    return (sum(fields) - fields[3] - fields[4]) / TICKS
