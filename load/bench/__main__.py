"""`make bench`: every figure beside a peer of the same run, all rounds and medians, in build/bench.json."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from app.broker.locate import find_broker
from load.bench import events, growth, latency, throughput
from load.bench.bench_env import ROOT, Round

if TYPE_CHECKING:
    from pathlib import Path

console = Console(stderr=True)
ROUNDS = 3
Figure = dict[str, Any]
NewRound = Callable[[str], Round]


def figure(name: str, values: list[float], unit: str, goal: str, *, holds: bool) -> Figure:
    """One line of the result: all rounds, their median, and whether the goal is met."""
    median = statistics.median(values)
    return {"name": name, "value": median, "unit": unit, "rounds": values, "goal": goal, "holds": holds}


def at_least(name: str, values: list[float], goal: float, unit: str = "ratio") -> Figure:
    return figure(name, values, unit, f">= {goal}", holds=statistics.median(values) >= goal)


def at_most(name: str, values: list[float], goal: float, unit: str = "ratio") -> Figure:
    return figure(name, values, unit, f"<= {goal}", holds=statistics.median(values) <= goal)


async def throughputs(new: NewRound) -> list[Figure]:
    rates, bares = [], []
    for _ in range(ROUNDS):
        round_ = new("throughput")
        rate, sizes = await throughput.worker_rate(round_)
        rates.append(rate)
        bares.append(await throughput.bare_rate(round_, sizes))
    ratios = [rate / bare for rate, bare in zip(rates, bares, strict=True)]
    return [
        figure("bare loop", bares, "events/s", "yardstick", holds=True),
        figure("worker, durable in to committed verdict", rates, "events/s", "see the ratio", holds=True),
        at_least("worker / bare loop", ratios, 0.1),
        at_least("worker / bare loop, the aim", ratios, 0.15),
    ]


async def latencies(new: NewRound) -> list[Figure]:
    _, sizes = await throughput.worker_rate(new("sizes"), 4_000, 500)
    workers, bares = [], []
    for number in range(ROUNDS):
        workers.append(await latency.worker_latency(new("latency"), number))
        bares.append(await latency.bare_latency(new("latency"), sizes, number))
    ratios = [worker.p99 / bare.p99 for worker, bare in zip(workers, bares, strict=True)]
    missing = [float(one.missing) for one in (*workers, *bares)]
    return [
        figure(
            "bare loop p50 at 1000/s, 10 ms linger", [b.p50 for b in bares], "ms", "yardstick", holds=True
        ),
        figure(
            "bare loop p99 at 1000/s, 10 ms linger", [b.p99 for b in bares], "ms", "yardstick", holds=True
        ),
        figure("worker p50 at 1000/s", [w.p50 for w in workers], "ms", "see the ratio", holds=True),
        figure("worker p99 at 1000/s", [w.p99 for w in workers], "ms", "see the ratio", holds=True),
        at_most("worker p99 / bare loop p99", ratios, 3),
        figure("missing outputs", missing, "events", "0", holds=not any(missing)),
    ]


async def memories(new: NewRound) -> list[Figure]:
    few, many = 1_000, 100_000
    small = [await growth.resident_kb(new("memory"), few) for _ in range(ROUNDS)]
    large = [await growth.resident_kb(new("memory"), many) for _ in range(ROUNDS)]
    each = [(b - a) / (many - few) for a, b in zip(small, large, strict=True)]
    return [
        figure("resident, 1 000 sessions", list(map(float, small)), "KiB", "yardstick", holds=True),
        figure("resident, 100 000 sessions", list(map(float, large)), "KiB", "see below", holds=True),
        at_most("memory a session", each, 3, "KiB"),
    ]


async def costs(new: NewRound) -> list[Figure]:
    count = 40_000
    few = [await growth.cpu_per_event_us(new("cost"), 200, 200, count) for _ in range(ROUNDS)]
    many = [await growth.cpu_per_event_us(new("cost"), 200_000, 200_000, count) for _ in range(ROUNDS)]
    ratios = [b / a for a, b in zip(few, many, strict=True)]
    return [
        figure("CPU per event, 200 sessions", few, "us", "yardstick", holds=True),
        figure("CPU per event, 200 000 sessions", many, "us", "see the ratio", holds=True),
        at_most("cost per event, 200 000 / 200 sessions", ratios, 1.3),
    ]


async def restarts(new: NewRound) -> list[Figure]:
    rounds = [await growth.restart_s(new("restart"), 200_000) for _ in range(ROUNDS)]
    return [
        figure("bare read of the changelog", [read for _, read in rounds], "s", "yardstick", holds=True),
        figure(
            "start to first verdict, 200 000 sessions", [s for s, _ in rounds], "s", "see below", holds=True
        ),
        at_most("restart / bare read", [started / read for started, read in rounds], 3),
    ]


PARTS: dict[str, Callable[[NewRound], Awaitable[list[Figure]]]] = {
    "throughput": throughputs,
    "latency": latencies,
    "memory": memories,
    "cost": costs,
    "restart": restarts,
}


async def run(bootstrap: str, names: list[str], work: Path) -> list[Figure]:
    """The named parts, one after the other."""
    registry = work / "registry.json"
    events.write_registry(registry)

    def new(name: str) -> Round:
        return Round(bootstrap, f"bench-{name}-{time.time_ns() // 10**6}", work, registry)

    figures: list[Figure] = []
    for name in names:
        console.print(f"[bold]{name}[/]")
        part = await PARTS[name](new)
        show(part)
        figures += part
    return figures


def show(figures: list[Figure]) -> None:
    table = Table("figure", "median", "unit", "goal", "holds", "rounds")
    for one in figures:
        rounds = " ".join(f"{value:.4g}" for value in one["rounds"])
        holds = "[green]yes[/]" if one["holds"] else "[red]no[/]"
        table.add_row(one["name"], f"{one['value']:.4g}", one["unit"], one["goal"], holds, rounds)
    console.print(table)


def main() -> None:
    """Options: the parts to run; default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    names = parser.parse_args().parts or list(PARTS)
    work = ROOT / "build" / "bench"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    broker = find_broker(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"), work / "broker")
    try:
        figures = asyncio.run(run(broker.bootstrap_servers, names, work))
    finally:
        broker.close()
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "broker": broker.kind}
    target = ROOT / "build" / "bench.json"
    target.write_text(json.dumps({"machine": machine, "figures": figures}, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {target.relative_to(ROOT)}")
    sys.exit(0 if all(one["holds"] for one in figures) else 1)


if __name__ == "__main__":
    main()
