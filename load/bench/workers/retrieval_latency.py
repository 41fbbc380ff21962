"""Retrievals through a worker: what an item's decision takes, also while provenance cannot be resolved."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from load.bench.fixtures import bench_env, items
from load.bench.measurement import Measurement, none, report, require_at_most
from load.bench.workers.latency import LINGER_MS, SECONDS, SESSIONS, WARM_UP_S, Latency, Message, Probe
from load.bench.workers.throughput import Sizes, bare_arguments
from sluice_topics.catalog import QUALITY_DECISIONS, RETRIEVALS, SERVED, SESSIONS_CHANGELOG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from load.bench.fixtures.bench_env import Round
    from load.bench.workers.stream import Bench

RATE = 1_000
STALLING = "stalling.example"
ANEW = 0.1
"""The share of requests with a reference that nobody has resolved yet."""


async def worker_latency(round_: Round, size: int, seed: int, **more: str) -> Latency:
    """The worker at the rate; `size` items a request, and of each the time is taken.

    Beside it the bare loop at 1 000 messages a second that writes records of a decision's size; and the same
    worker while a server that never answers holds what resolves references.
    """
    return await _measure(round_, size, list(_messages(round_, size, seed)), **more)


async def bare_latency(round_: Round, sizes: Sizes, seed: int) -> Latency:
    """The bare loop at the rate with one item a request, and one output of a decision's size for each."""
    await round_.create_topics()
    name = f"{round_.name}-bare"
    await bench_env.create_plain_topics(round_.bootstrap, f"{name}-out", f"{name}-state")
    arguments = bare_arguments(round_, sizes, name, LINGER_MS, RETRIEVALS)
    with bench_env.process(arguments, round_.environment(), round_.work / f"{name}.log"):
        await asyncio.sleep(3)
        probe = Probe(round_.bootstrap, round_.topic(RETRIEVALS), f"{name}-out")
        await probe.run(RATE, list(_messages(round_, 1, seed)))
        return probe.result(WARM_UP_S)


async def sizes_of(round_: Round, count: int = 1_000) -> Sizes:
    """What the worker writes for an item: the decision, its headers, and a session's state."""
    messages = [(message.key, message.value) for message in _messages(round_, 1, 9)][:count]
    await round_.create_topics()
    await bench_env.publish(round_.bootstrap, round_.topic(RETRIEVALS), messages)
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(QUALITY_DECISIONS), count)
    decisions = await bench_env.read_written(round_.bootstrap, round_.topic(QUALITY_DECISIONS))
    served = await bench_env.read_written(round_.bootstrap, round_.topic(SERVED))
    states = await bench_env.read_written(round_.bootstrap, round_.topic(SESSIONS_CHANGELOG))
    return Sizes(
        bench_env.mean(decisions.values) + bench_env.mean(served.values),
        bench_env.mean(decisions.headers),
        bench_env.mean([value for value in states.values if value]),
    )


async def items_with_server(round_: Round, seed: int, *, stalling: bool) -> tuple[Latency, int]:
    """Requests of which a tenth lead to a server that takes every connection and says nothing, or of which
    none leads anywhere but to what is recorded. And how many connections the server held."""
    async with _server() as connections:
        messages = list(
            _messages(round_, 1, seed, f"http://{STALLING}:{connections.port}" if stalling else "")
        )
        asking = {
            "SLUICE_PROVENANCE__ALLOWED_HOSTS": json.dumps([STALLING]),
            "SLUICE_PROVENANCE__ALLOWED_PORTS": json.dumps([connections.port]),
            "SLUICE_PROVENANCE__ALLOW_LOOPBACK": "true",
            "SLUICE_PROVENANCE__PINNED": json.dumps({STALLING: "127.0.0.1"}),
        }
        return await _measure(round_, 1, messages, **asking), connections.connections


class _OpenConnections:
    """A server's open connections, none of which it answers."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self._open: list[asyncio.StreamWriter] = []

    async def end(self) -> None:
        """Close what is still open."""
        for writer in self._open:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._open), return_exceptions=True)

    async def hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read what comes, until the other side gives up."""
        self.connections += 1
        self._open.append(writer)
        try:
            while await reader.read(4096):
                pass
        except ConnectionError:
            writer.close()


@asynccontextmanager
async def _server() -> AsyncIterator[_OpenConnections]:
    connections = _OpenConnections()
    server = await asyncio.start_server(connections.hold, "127.0.0.1", 0)
    connections.port = server.sockets[0].getsockname()[1]
    try:
        yield connections
    finally:
        server.close()
        await connections.end()


async def _measure(round_: Round, size: int, messages: list[Message], **more: str) -> Latency:
    await round_.create_topics()
    with bench_env.worker(round_, **more) as child:
        await bench_env.wait_until_ready(round_, child)
        probe = Probe(round_.bootstrap, round_.topic(RETRIEVALS), round_.topic(QUALITY_DECISIONS))
        await probe.run(RATE // size, messages)
        return probe.result(WARM_UP_S)


def _messages(round_: Round, size: int, seed: int, elsewhere: str = "") -> Iterator[Message]:
    """What is sent in the measured time; of `elsewhere`, an origin, are some references."""
    topic, count = round_.topic(RETRIEVALS), RATE * SECONDS // size
    now_ms = time.time_ns() // 1_000_000
    leading = items.Elsewhere(elsewhere, ANEW) if elsewhere else None
    shape = items.Shape(size, None, now_ms, leading)
    for key, value in items.requests(count, SESSIONS // size, seed, shape):
        yield Message(topic, key, value, size)


SIZES = (1, 10)
TIMES = 3
UNDISTURBED = 1.25
"""A p99 moves by as much between two runs of the same."""


async def latencies(bench: Bench) -> list[Measurement]:
    """At 1 000 items a second, by the size of a request, beside the bare loop of the same round."""
    sizes = await sizes_of(bench.round("item-sizes"))
    bares: list[Latency] = []
    by_size: dict[int, list[Latency]] = {size: [] for size in SIZES}
    for number in bench.rounds:
        bares.append(await bare_latency(bench.round("items"), sizes, number))
        for size in SIZES:
            round_ = bench.round("items")
            by_size[size].append(await worker_latency(round_, size, number))
    bare_p99 = [bare.p99 for bare in bares]
    measurements = [
        report(f"bare loop p50 at {RATE}/s, 10 ms linger", [bare.p50 for bare in bares], "ms", "yardstick"),
        report(f"bare loop p99 at {RATE}/s, 10 ms linger", bare_p99, "ms", "yardstick"),
    ]
    for size, own in by_size.items():
        measurements += _compare(f"{RATE} items/s, {size} a request", own, bare_p99)
    return measurements


def _compare(name: str, own: Sequence[Latency], bare_p99: Sequence[float]) -> list[Measurement]:
    ratios = [latency.p99 / bare for latency, bare in zip(own, bare_p99, strict=True)]
    return [
        report(f"worker p50, {name}", [latency.p50 for latency in own], "ms"),
        report(f"worker p99, {name}", [latency.p99 for latency in own], "ms", "see the ratio"),
        require_at_most(f"worker p99 / bare loop p99, {name}", ratios, TIMES),
        none(f"missing decisions, {name}", [float(latency.missing) for latency in own], "items"),
    ]


async def measure_unhindered(bench: Bench) -> list[Measurement]:
    """With references to a server that never answers, and without any that must be resolved."""
    alone, stalled = [], []
    for number in bench.rounds:
        round_ = bench.round("recorded")
        alone.append(await items_with_server(round_, number, stalling=False))
        round_ = bench.round("stalling")
        stalled.append(await items_with_server(round_, number, stalling=True))
    ratios = [b.p99 / a.p99 for (a, _), (b, _) in zip(alone, stalled, strict=True)]
    every = [latency for latency, _ in (*alone, *stalled)]
    return [
        report("items p99, nothing to resolve", [latency.p99 for latency, _ in alone], "ms", "yardstick"),
        report("items p99, a server that stalls", [latency.p99 for latency, _ in stalled], "ms"),
        report("connections that it held", [float(connections) for _, connections in stalled], "connections"),
        require_at_most("items p99, stalling server / nothing to resolve", ratios, UNDISTURBED),
        none("missing decisions", [float(latency.missing) for latency in every], "items"),
    ]
