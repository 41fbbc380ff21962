"""What the gateway's route costs with a worker behind it, and the memory of a gateway with many long polls.

The peer is the same route whose worker is the bare transactional loop: it answers each input with a verdict
that a worker wrote before, under the input's own id. So both ways have the same client, gateway and broker,
and differ by the decision alone.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2

from load.bench.fixtures import action_events, bench_env, bench_policy
from load.bench.workers import latency
from load.bench.workers.latency import SESSIONS, WARM_UP_S, Latency
from load.bench.workers.throughput import bare_arguments
from sluice.gateway.http.api_keys import ApiKeyFile, make_key, write_keys
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from load.bench.fixtures.bench_env import Round
    from load.bench.workers.throughput import Sizes

RATE, SECONDS = 100, 24
POLLS, POLL_S = 2_000, 25
POLLERS, POLLED_VERDICTS, BESIDE_S = 40, 8_000, 10.0
SETTLE_S = 10.0
PATIENCE_S = 120.0
GATEWAY = ["-c", "from sluice.cli.main import main; main()", "gateway"]


@asynccontextmanager
async def gateway(round_: Round) -> AsyncIterator[tuple[httpx2.AsyncClient, subprocess.Popen[bytes]]]:
    """A gateway process that is ready, and a client that speaks for the benchmarks' agent."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = round_.work / f"{round_.name}.keys.json"
    key, words = make_key(bench_policy.TENANT, [action_events.AGENT], "", "2026-01-01T00:00:00.000Z")
    write_keys(keys, ApiKeyFile(keys=[key]))
    settings = {
        "PORT": str(port),
        "API_KEYS": str(keys),
        "WAIT_S": "50",
        "REQUESTS_PER_S": "100000",
        "BURST": "100000",
        "REQUEST_TIMEOUT_S": "120",  # on a busy machine a kept connection must not end as the client uses it
    }
    environment = round_.environment(**{f"SLUICE_GATEWAY__{name}": value for name, value in settings.items()})
    log = round_.work / f"{round_.name}.gateway.log"
    limits = httpx2.Limits(max_connections=POLLS + RATE, max_keepalive_connections=RATE)
    with bench_env.process(GATEWAY, environment, log) as child:
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"X-Mnemom-Api-Key": words},
            timeout=PATIENCE_S,
            limits=limits,
            trust_env=False,
        ) as client:
            await _wait_until_ready(client, child, log)
            yield client, child


async def _wait_until_ready(client: httpx2.AsyncClient, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + bench_env.READY_DEADLINE_S
    while time.monotonic() < deadline and child.poll() is None:
        try:
            if (await client.get("/readyz")).status_code == httpx2.codes.OK:
                return
        except httpx2.TransportError:
            await asyncio.sleep(0.1)
    raise RuntimeError(f"the gateway is not ready (status {child.returncode}): see {log}")


async def worker_latency(round_: Round, seed: int) -> tuple[Latency, Path]:
    """The route with a worker, and a file with one of the worker's verdicts."""
    await round_.create_topics()
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        async with gateway(round_) as (client, _):
            route = await _measure_route(client, seed)
    (record, *_) = await bench_env.read_committed(round_.bootstrap, round_.topic(VERDICTS))
    template = round_.work / f"{round_.name}.verdict.json"
    headers = [[name, value.decode("latin-1")] for name, value in record.headers]
    template.write_text(json.dumps({"body": json.loads(record.value), "headers": headers}))
    return route, template


async def bare_latency(round_: Round, sizes: Sizes, template: Path, seed: int) -> Latency:
    """The same route with the bare loop in the worker's place."""
    await round_.create_topics()
    name = f"{round_.name}-bare"
    await bench_env.create_plain_topics(round_.bootstrap, f"{name}-state")
    arguments = bare_arguments(round_, sizes, name, latency.LINGER_MS)
    arguments[arguments.index("--output") + 1] = round_.topic(VERDICTS)
    arguments += ["--answer", str(template)]
    with bench_env.process(arguments, round_.environment(), round_.work / f"{name}.log"):
        async with gateway(round_) as (client, _):
            return await _measure_route(client, seed)


async def _measure_route(client: httpx2.AsyncClient, seed: int) -> Latency:
    """Post each action in its turn, however many still wait. Raises RuntimeError for an answer that is no
    decision."""
    times: list[tuple[float, float]] = []

    async def one(body: dict[str, Any]) -> None:
        sent = time.perf_counter()
        answer = await client.post("/v1/evaluate", json=body)
        times.append((sent, time.perf_counter()))
        if "verdict_id" not in answer.json():
            raise RuntimeError(f"{answer.status_code}: {answer.text[:500]}")

    calls, start = [], time.perf_counter()
    for number, body in enumerate(_bodies(seed, RATE * SECONDS)):
        if (wait := start + number / RATE - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        calls.append(asyncio.create_task(one(body)))
    await asyncio.gather(*calls)
    first = min(sent for sent, _ in times)
    return latency.percentiles([pair for pair in times if pair[0] > first + WARM_UP_S], 0)


def _bodies(seed: int, count: int) -> Sequence[dict[str, Any]]:
    return [json.loads(value) for _, value in action_events.events(count, SESSIONS, seed)]


async def measure_polling_kb(round_: Round, polls: int, seed: int) -> float:
    """KiB resident in a gateway with so many long polls for the end of escalations; all of them are answered.

    Each poll is a connection of its own.
    """
    await round_.create_topics()
    with bench_env.worker(round_) as worker:
        await bench_env.wait_until_ready(round_, worker)
        async with gateway(round_) as (client, child):
            ids = await _escalations(client, seed)
            waiting = [
                asyncio.create_task(
                    client.get(f"/v1/escalations/{ids[number % len(ids)]}", params={"wait": POLL_S})
                )
                for number in range(polls)
            ]
            await asyncio.sleep(SETTLE_S)
            if any(task.done() for task in waiting):
                raise RuntimeError("a poll did not wait")
            resident = bench_env.resident_kb_of(child.pid)
            answers = await asyncio.gather(*waiting)
    refused = [answer.status_code for answer in answers if answer.status_code != httpx2.codes.ACCEPTED]
    if refused:
        raise RuntimeError(f"{len(refused)} of {polls} polls were refused, the first with {refused[0]}")
    return float(resident)


async def measure_beside_pollers(round_: Round, verdicts: int, seed: int) -> tuple[Latency, Latency]:
    """The others' requests, one after the other, without and with `POLLERS` connections that ask for
    advisories all the time, where the ledger has so many verdicts."""
    await round_.create_topics()
    inputs = list(action_events.events(verdicts, SESSIONS, seed))
    with bench_env.worker(round_) as worker:
        await bench_env.wait_until_ready(round_, worker)
        await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), inputs)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), verdicts)
        async with gateway(round_) as (client, _):
            bodies = iter(_bodies(seed + 1, 100_000))
            alone = await _post_in_turn(client, bodies)
            pollers = [asyncio.create_task(_poll(client)) for _ in range(POLLERS)]
            try:
                await asyncio.sleep(WARM_UP_S)
                beside = await _post_in_turn(client, bodies)
            finally:
                for poller in pollers:
                    poller.cancel()
                ends = await asyncio.gather(*pollers, return_exceptions=True)
    faults = [end for end in ends if not isinstance(end, asyncio.CancelledError)]
    if faults:
        raise RuntimeError(f"{len(faults)} pollers ended, the first with {faults[0]!r}")
    return alone, beside


async def _post_in_turn(client: httpx2.AsyncClient, bodies: Iterator[dict[str, Any]]) -> Latency:
    times, until = [], time.perf_counter() + BESIDE_S
    while (sent := time.perf_counter()) < until:
        (await client.post("/v1/evaluate", json=next(bodies))).json()["verdict_id"]
        times.append((sent, time.perf_counter()))
    return latency.percentiles(times, 0)


async def _poll(client: httpx2.AsyncClient) -> None:
    while True:
        answer = await client.get(f"/v1/agents/{action_events.AGENT}/advisories")
        if not answer.json()["count"]:
            raise RuntimeError("there is nothing to poll for")


async def _escalations(client: httpx2.AsyncClient, seed: int) -> list[str]:
    """Ids of escalations that wait for a person. Raises RuntimeError if there are none."""
    bodies = [{**body, "mode": "high_stakes"} for body in _bodies(seed, 400)]
    answers = await asyncio.gather(*(client.post("/v1/evaluate", json=body) for body in bodies))
    ids = [answer.json()["escalationId"] for answer in answers if answer.status_code == httpx2.codes.ACCEPTED]
    if not ids:
        raise RuntimeError("none of the actions was escalated")
    return ids
