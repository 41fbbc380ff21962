"""Retrievals through one worker at 1 000 items a second, from before the send to the committed decision.

Beside it the bare loop at 1 000 messages a second that writes records of a decision's size; and the same
worker while a server that never answers holds what resolves references.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from load.bench import bench_env, items, reading
from load.bench.latency import LINGER_MS, RATE, SECONDS, SESSIONS, WARM_UP_S, Latency, Message, Probe
from load.bench.throughput import Sizes, bare_arguments
from topics.catalog import QUALITY_DECISIONS, RETRIEVALS, SERVED, SESSIONS_CHANGELOG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from load.bench.bench_env import Round

STALLING = "stalling.example"
ANEW = 0.1
"""The share of requests with a reference that nobody has resolved yet."""


async def worker_latency(round_: Round, size: int, seed: int, **more: str) -> Latency:
    """The worker at the rate; `size` items a request, and of each the time is taken."""
    return await _measured(round_, size, list(_messages(round_, size, seed)), **more)


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
    messages = [(one.key, one.value) for one in _messages(round_, 1, 9)][:count]
    await round_.create_topics()
    await bench_env.publish(round_.bootstrap, round_.topic(RETRIEVALS), messages)
    with bench_env.worker(round_) as child:
        await bench_env.until_ready(round_, child)
        await reading.until_written(round_.bootstrap, round_.topic(QUALITY_DECISIONS), count)
    decisions = await reading.written(round_.bootstrap, round_.topic(QUALITY_DECISIONS))
    served = await reading.written(round_.bootstrap, round_.topic(SERVED))
    states = await reading.written(round_.bootstrap, round_.topic(SESSIONS_CHANGELOG))
    return Sizes(
        reading.mean(decisions.values) + reading.mean(served.values),
        reading.mean(decisions.headers),
        reading.mean([value for value in states.values if value]),
    )


async def beside_a_server(round_: Round, seed: int, *, stalling: bool) -> tuple[Latency, int]:
    """Requests of which a tenth lead to a server that takes every connection and says nothing, or of which
    none leads anywhere but to what is recorded. And how many connections the server held."""
    async with _server() as held:
        messages = list(_messages(round_, 1, seed, f"http://{STALLING}:{held.port}" if stalling else ""))
        asking = {
            "SLUICE_PROVENANCE__ALLOWED_HOSTS": json.dumps([STALLING]),
            "SLUICE_PROVENANCE__ALLOWED_PORTS": json.dumps([held.port]),
            "SLUICE_PROVENANCE__ALLOW_LOOPBACK": "true",
            "SLUICE_PROVENANCE__PINNED": json.dumps({STALLING: "127.0.0.1"}),
        }
        return await _measured(round_, 1, messages, **asking), held.connections


class _Held:
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
async def _server() -> AsyncIterator[_Held]:
    held = _Held()
    server = await asyncio.start_server(held.hold, "127.0.0.1", 0)
    held.port = server.sockets[0].getsockname()[1]
    try:
        yield held
    finally:
        server.close()
        await held.end()


async def _measured(round_: Round, size: int, messages: list[Message], **more: str) -> Latency:
    await round_.create_topics()
    with bench_env.worker(round_, **more) as child:
        await bench_env.until_ready(round_, child)
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
