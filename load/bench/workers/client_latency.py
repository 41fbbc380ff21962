"""What the client adds: milliseconds from `propose` to its verdict.

The peer sends the same actions to the same topic with aiokafka alone; the bare loop answers each with one
record in a transaction, and a plain consumer waits for it.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

from load.bench.fixtures import action_events, bench_env
from load.bench.workers import latency
from load.bench.workers.latency import SESSIONS, WARM_UP_S, Latency, Message, Probe
from load.bench.workers.throughput import Sizes, bare_arguments
from sluice.client import AsyncGateClient, ClientOptions
from sluice_topics.catalog import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.bench.fixtures.bench_env import Round

RATE, SECONDS = 100, 24
PATIENCE_S = 240.0


async def client_latency(round_: Round, seed: int) -> Latency:
    """The client and a worker."""
    await round_.create_topics()
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        return await measure_client(round_, list(action_events.events(RATE * SECONDS, SESSIONS, seed)))


async def bare_latency(round_: Round, sizes: Sizes, seed: int) -> Latency:
    """The same actions, without client and worker."""
    await round_.create_topics()
    name, inputs = f"{round_.name}-bare", round_.topic(ACTIONS)
    await bench_env.create_plain_topics(round_.bootstrap, f"{name}-out", f"{name}-state")
    arguments = bare_arguments(round_, sizes, name, latency.LINGER_MS)
    with bench_env.process(arguments, round_.environment(), round_.work / f"{name}.log"):
        await asyncio.sleep(3)
        probe = Probe(round_.bootstrap, inputs, f"{name}-out")
        events = action_events.events(RATE * SECONDS, SESSIONS, seed)
        await probe.run(RATE, [Message(inputs, *event) for event in events])
    return probe.result(WARM_UP_S)


async def measure_client(round_: Round, events: Sequence[tuple[bytes, bytes]]) -> Latency:
    """Propose each in its turn, however many still wait."""
    times: list[tuple[float, float]] = []

    async def one(client: AsyncGateClient, value: bytes) -> None:
        sent = time.perf_counter()
        await propose(client, value, PATIENCE_S)
        times.append((sent, time.perf_counter()))

    options = ClientOptions(topic_prefix=round_.layout.prefix)
    async with AsyncGateClient(round_.bootstrap, action_events.AGENT, options) as client:
        calls = []
        start = time.perf_counter()
        for number, (_, value) in enumerate(events):
            if (wait := start + number / RATE - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            calls.append(asyncio.create_task(one(client, value)))
        await asyncio.gather(*calls)
    first = min(sent for sent, _ in times)
    return latency.percentiles([pair for pair in times if pair[0] > first + WARM_UP_S], 0)


async def propose(client: AsyncGateClient, value: bytes, wait_s: float) -> None:
    """Propose an action that is written as a message."""
    fields = json.loads(value)
    del fields["agent_id"]
    tool, parameters = fields.pop("toolName"), fields.pop("parameters")
    await client.propose(tool, parameters, deadline_s=wait_s, **fields)
