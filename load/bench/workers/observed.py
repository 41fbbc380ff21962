"""What metrics, log lines as JSON and traces of one input in a hundred cost a worker.

Rounds alternate, so that what else the machine does meets both. A worker works at its processor's limit: its
CPU seconds for each input say how much its rate falls, also on a busy machine.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING
from urllib.request import urlopen

from load.bench.fixtures import action_events, bench_env
from load.bench.measurement import report, require_at_most
from load.bench.workers.throughput import SESSIONS
from load.installations.loopback_http import HttpAnswer, serve_http
from sluice.broker.handle import find_free_ports

if TYPE_CHECKING:
    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench

COUNT = 40_000
SCRAPE_S = 1.0
MOST_PERCENT = 5.0


async def measure_observed(bench: Bench) -> list[Measurement]:
    """CPU of an input with everything on and with everything off, in pairs; one is not counted before."""
    count = bench.extent.scale(COUNT)
    await _measure_cpu_us(bench.round("observed-warm"), count // 4, on=False)
    cpu: dict[bool, list[float]] = {True: [], False: []}
    for number in bench.rounds:
        for is_on in (False, True) if number % 2 else (True, False):
            cpu[is_on].append(await _measure_cpu_us(bench.round("observed"), count, on=is_on))
    costs = [100 * (with_ / without - 1) for with_, without in zip(cpu[True], cpu[False], strict=True)]
    return [
        report("CPU of an input, unobserved", cpu[False], "us"),
        report("CPU of an input, metrics, JSON lines, 1 % traced", cpu[True], "us"),
        require_at_most("cost of being observed", costs, MOST_PERCENT, "%"),
    ]


async def _measure_cpu_us(round_: Round, count: int, *, on: bool) -> float:
    """CPU microseconds of the worker for each input."""
    await round_.create_topics()
    (port,) = find_free_ports(1)
    lots = (action_events.events(count, SESSIONS, time.time_ns() % 10**9) for _ in range(2))
    with serve_http(lambda _: HttpAnswer()) as url:
        more = {
            "SLUICE_WORKER__METRICS_ADDRESS": f"127.0.0.1:{port}",
            "SLUICE_LOGGING__FORMAT": "json",
            "SLUICE_LOGGING__LEVEL": "INFO",
            "SLUICE_TRACES__ENDPOINT": f"{url}/v1/traces",
            "SLUICE_TRACES__SHARE": "0.01",
        }
        with bench_env.worker(round_, **(more if on else {})) as child:
            await bench_env.wait_until_ready(round_, child)
            stop = threading.Event()
            if on:
                threading.Thread(target=_scrape, args=(port, stop), daemon=True).start()
            turns = (bench_env.Turn("", messages) for messages in lots)
            each = await bench_env.measure_turns_us(round_, child, turns)
            stop.set()
    return each[""]


def _scrape(port: int, stop: threading.Event) -> None:
    """As Prometheus does, more often."""
    while not stop.wait(SCRAPE_S):
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            answer.read()
