"""What metrics, log lines as JSON and traces of one input in a hundred cost a worker.

Rounds alternate, so that what else the machine does meets both. A worker on a preloaded topic works at its
processor's limit: then its CPU seconds for each input say how much its rate falls, also on a busy machine.
"""

from __future__ import annotations

import os
import socketserver
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from load.bench.fixtures import action_events, bench_env
from load.bench.measurement import report, require_at_most
from load.bench.workers.throughput import SESSIONS
from sluice.broker.handle import find_free_ports
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench

COUNT = 40_000
SCRAPE_S = 1.0
MOST_PERCENT = 5.0


async def measure_observed(bench: Bench) -> list[Measurement]:
    """CPU of an input with everything on and with everything off, in pairs; one is not counted before."""
    count = bench.extent.scale(COUNT)
    await _measure_cpu(bench.round("observed-warm"), count // 4, on=False)
    cpu: dict[bool, list[float]] = {True: [], False: []}
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in bench.rounds:
        for is_on in (False, True) if number % 2 else (True, False):
            cpu_us, rate = await _measure_cpu(bench.round("observed"), count, on=is_on)
            cpu[is_on].append(cpu_us)
            rates[is_on].append(rate)
    costs = [100 * (with_ / without - 1) for with_, without in zip(cpu[True], cpu[False], strict=True)]
    return [
        report("CPU of an input, unobserved", cpu[False], "us"),
        report("CPU of an input, metrics, JSON lines, 1 % traced", cpu[True], "us"),
        report("rate, unobserved", rates[False], "events/s"),
        report("rate, observed", rates[True], "events/s"),
        require_at_most("cost of being observed", costs, MOST_PERCENT, "%"),
    ]


async def _measure_cpu(round_: Round, count: int, *, on: bool) -> tuple[float, float]:
    """CPU microseconds of the worker for each input, from ready to the last verdict; events per second."""
    await round_.create_topics()
    events = action_events.events(count, SESSIONS, time.time_ns() % 10**9)
    await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), events)
    (port,) = find_free_ports(1)
    with _collector() as url:
        more = {
            "SLUICE_WORKER__METRICS_ADDRESS": f"127.0.0.1:{port}",
            "SLUICE_LOGGING__FORMAT": "json",
            "SLUICE_LOGGING__LEVEL": "INFO",
            "SLUICE_TRACES__ENDPOINT": url,
            "SLUICE_TRACES__SHARE": "0.01",
        }
        with bench_env.worker(round_, **(more if on else {})) as child:
            await bench_env.wait_until_ready(round_, child)
            stop = threading.Event()
            if on:
                threading.Thread(target=_scrape, args=(port, stop), daemon=True).start()
            began_s, began = _read_cpu_s(child.pid), time.monotonic()
            await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), count)
            spent_s, took = _read_cpu_s(child.pid) - began_s, time.monotonic() - began
            stop.set()
    return 1e6 * spent_s / count, count / took


def _read_cpu_s(pid: int) -> float:
    """Of all threads of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _scrape(port: int, stop: threading.Event) -> None:
    """As Prometheus does, more often."""
    while not stop.wait(SCRAPE_S):
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            answer.read()


@contextmanager
def _collector() -> Iterator[str]:
    """An endpoint that takes spans and drops them."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Nothing."""

    socketserver.TCPServer.allow_reuse_address = True
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    finally:
        server.shutdown()
        server.server_close()
