"""A worker whose grader asks a model that takes 300 ms: what it decides in a second, and what that costs the
sessions that ask no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from load.bench.fixtures import action_events, bench_env
from load.bench.measurement import report, require_at_least
from load.bench.workers.bystanders import RATE, TURN_S, TURN_WARM_UP_S, TURNS
from load.bench.workers.latency import ONE_IN, Beside, Message, compare_beside, measure_by_turns
from load.installations.model_server import ModelServer
from sluice.core.actions.grader import Grader
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench

EVENTS = 2_500
TAKES_MS = 300
IN_FLIGHT = 32
SESSIONS = 400
OF_BOUND = 0.8
UNDISTURBED = 1.25
"""A p99 moves by as much between two runs of the same."""
ROOM = {
    "SLUICE_GRADER__MAX_CONNECTIONS": str(IN_FLIGHT),
    "SLUICE_GRADER__MAX_WAITING": "100000",
}


def compute_bound() -> float:
    """Decisions a second that the model allows."""
    return IN_FLIGHT / (TAKES_MS / 1000)


@dataclass(frozen=True, slots=True)
class JudgedRate:
    """Decisions a second, and which share of them the model judged."""

    rate: float
    judged: float


async def worker_rate(round_: Round, count: int, *, asks: bool) -> JudgedRate:
    """Of actions on a preloaded topic, each in a session of its own and unlike the others."""
    await round_.create_topics(grader=True)
    messages = [
        (message.key, message.value)
        for message in (_make_message("", number, asks=asks) for number in range(count))
    ]
    await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), messages)
    with ModelServer(TAKES_MS) as server, bench_env.worker(round_, **server.environment, **ROOM) as child:
        await bench_env.wait_until_ready(round_, child)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), count)
    verdicts = await bench_env.read_committed(round_.bootstrap, round_.topic(VERDICTS), count)
    judged = sum(_was_judged(verdict.value) for verdict in verdicts)
    rate = (await bench_env.read_written(round_.bootstrap, round_.topic(VERDICTS))).rate()
    return JudgedRate(rate, judged / count)


async def actions_beside_judged(round_: Round, seed: int) -> tuple[Beside, float]:
    """How long actions that ask no model take, while one in twenty asks it, and while that one asks none.
    Also the share of those that were to ask and that it judged."""
    await round_.create_topics(grader=True)
    inputs = round_.topic(ACTIONS)

    def messages(turn: int, asks: bool) -> list[Message]:
        return list(mix(inputs, seed * 100 + turn, asks=asks))

    with ModelServer(TAKES_MS) as server, bench_env.worker(round_, **server.environment, **ROOM) as child:
        await bench_env.wait_until_ready(round_, child)
        beside = await measure_by_turns(round_, RATE, TURNS, TURN_WARM_UP_S, messages)
        count = (2 * TURNS + 1) * RATE * TURN_S
        verdicts = await bench_env.read_committed(round_.bootstrap, round_.topic(VERDICTS), count)
    judged = sum(_was_judged(verdict.value) for verdict in verdicts)
    return beside, judged / ((TURNS + 1) * RATE * TURN_S // ONE_IN)


def mix(topic: str, seed: int, *, asks: bool) -> Iterator[Message]:
    """Every twentieth in a session of its own, and not timed."""
    for number, (key, value) in enumerate(action_events.events(RATE * TURN_S, SESSIONS, seed)):
        if number % ONE_IN:
            yield Message(topic, key, value)
        else:
            yield _make_message(topic, seed * 10**6 + number, asks=asks)


def _make_message(topic: str, number: int, *, asks: bool) -> Message:
    session = f"judged-{number:09d}"
    fields = {
        "action_id": session,
        "agent_id": action_events.AGENT,
        "session_id": session,
        "mode": "standard",
        "toolName": "read_file",
        "parameters": {"path": f"notes-{number}.txt", "judged" if asks else "plain": number},
    }
    return Message(topic, session.encode(), orjson.dumps(fields), outputs=0)


def _was_judged(verdict: bytes) -> bool:
    outputs = orjson.loads(verdict)["model_outputs"]
    return any(output["gate"] == Grader.name and output["status"] == "answered" for output in outputs)


async def measure_judging(bench: Bench) -> list[Measurement]:
    """A worker whose grader asks a model that takes 300 ms, and the sessions that ask none."""
    count = bench.extent.scale(EVENTS)
    own: list[JudgedRate] = []
    asked: list[JudgedRate] = []
    beside: list[tuple[Beside, float]] = []
    for number in bench.rounds:
        own.append(await worker_rate(bench.round("unjudged"), count, asks=False))
        asked.append(await worker_rate(bench.round("judged"), count, asks=True))
        beside.append(await actions_beside_judged(bench.round("beside"), number))
    of_bound = [b.rate / min(compute_bound(), a.rate) for a, b in zip(own, asked, strict=True)]
    shares = [rate.judged for rate in asked] + [share for _, share in beside]
    return [
        report("worker, the same actions, no model", [rate.rate for rate in own], "events/s", "yardstick"),
        report("worker, a model of 300 ms", [rate.rate for rate in asked], "events/s", "see the ratio"),
        require_at_least("rate / min(32 / .3 s, the worker's own)", of_bound, OF_BOUND),
        require_at_least("actions judged by the model", shares, 1, "share"),
        *compare_beside([others for others, _ in beside], f"others at {RATE}/s", "judged", UNDISTURBED),
    ]
