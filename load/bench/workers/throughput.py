"""Durable in → committed verdict, one worker, everything on, against the bare loop on the same inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from load.bench.fixtures import action_events, bench_env
from sluice_topics.catalog import ACTIONS, SESSIONS_CHANGELOG, VERDICTS

if TYPE_CHECKING:
    from load.bench.fixtures.bench_env import Round

EVENTS = 60_000
SESSIONS = 2_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes that the worker writes per input: verdict, its headers, and a session's state record."""

    output: int
    header: int
    state: int


async def worker_rate(round_: Round, count: int = EVENTS, sessions: int = SESSIONS) -> tuple[float, Sizes]:
    """Events per second of the worker on a preloaded topic, and what it wrote."""
    await round_.create_topics()
    await bench_env.publish(
        round_.bootstrap, round_.topic(ACTIONS), action_events.events(count, sessions, time.time_ns() % 10**9)
    )
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), count)
    verdicts = await bench_env.read_written(round_.bootstrap, round_.topic(VERDICTS))
    states = await bench_env.read_written(round_.bootstrap, round_.topic(SESSIONS_CHANGELOG))
    sizes = Sizes(
        bench_env.mean(verdicts.values),
        bench_env.mean(verdicts.headers),
        bench_env.mean([v for v in states.values if v]),
    )
    return verdicts.rate(), sizes


async def bare_rate(round_: Round, sizes: Sizes, count: int = EVENTS) -> float:
    """Events per second of the bare loop on the same topic."""
    name = f"{round_.name}-bare"
    await bench_env.create_plain_topics(round_.bootstrap, f"{name}-out", f"{name}-state")
    arguments = bare_arguments(round_, sizes, name)
    with bench_env.process(arguments, round_.environment(), round_.work / f"{name}.log"):
        await bench_env.wait_until_written(round_.bootstrap, f"{name}-out", count)
        written = await bench_env.read_written(round_.bootstrap, f"{name}-out", count)
    return written.rate()


def bare_arguments(
    round_: Round, sizes: Sizes, name: str, linger_ms: float = 0, topic: str = ACTIONS
) -> list[str]:
    """The bare loop's command line."""
    return [
        *("-m", "load.bench.workers.bare", "--bootstrap", round_.bootstrap, "--group", name),
        *("--input", round_.topic(topic), "--output", f"{name}-out", "--state", f"{name}-state"),
        *("--output-bytes", str(sizes.output), "--state-bytes", str(sizes.state)),
        *("--header-bytes", str(sizes.header), "--linger-ms", str(linger_ms)),
    ]
