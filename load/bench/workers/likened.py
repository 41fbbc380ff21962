"""A worker whose every action is compared with known ones: texts that it never saw, then the same again.

Both lots lie in the topic before the worker takes them up; the second has the texts of the first under new
ids, so that each is answered from memory. The yardstick is the same worker under the shipped stages.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from load.bench.fixtures import action_events, bench_env
from load.bench.fixtures.bench_policy import LIKENED
from load.bench.workers.bystanders import ENCODER, RATE, TURN_S, TURN_WARM_UP_S, TURNS
from load.bench.workers.latency import ONE_IN, Beside, Message, measure_by_turns
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.bench.fixtures.bench_env import Round

EVENTS = 2000
SESSIONS = 200


@dataclass(frozen=True, slots=True)
class LikenedRates:
    """Events per second with fresh and with repeated texts, and which share of all was compared."""

    fresh: float
    repeated: float
    compared: float


async def rates(round_: Round, count: int, seed: int) -> LikenedRates:
    """In one worker, one lot after the other."""
    await round_.create_topics(likened=True)
    inputs, outputs = round_.topic(ACTIONS), round_.topic(VERDICTS)
    verdicts: list[Any] = []
    with bench_env.worker(round_, **ENCODER) as child:
        await bench_env.wait_until_ready(round_, child)
        for lot in (1, 2):
            await bench_env.publish(round_.bootstrap, inputs, events(count, seed, lot))
            await bench_env.wait_until_written(round_.bootstrap, outputs, count * lot)
            while len(verdicts) < count * lot:  # a transaction's end is in the log too
                verdicts = await bench_env.read_committed(round_.bootstrap, outputs)
    compared = sum(_is_compared(orjson.loads(verdict.value)) for verdict in verdicts)
    times = sorted(verdict.timestamp for verdict in verdicts)
    return LikenedRates(_rate(times[:count]), _rate(times[count:]), compared / len(verdicts))


async def plain_rate(round_: Round, count: int, seed: int) -> float:
    """Of the same actions under the shipped stages."""
    await round_.create_topics()
    outputs = round_.topic(VERDICTS)
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), events(count, seed, 1))
        await bench_env.wait_until_written(round_.bootstrap, outputs, count)
    return _rate(
        sorted(record.timestamp for record in await bench_env.read_committed(round_.bootstrap, outputs))
    )


async def bystanders(round_: Round, seed: int) -> tuple[Beside, float]:
    """How long actions that are compared with nothing take, while one in twenty, of another agent and in a
    session of its own, is compared, and while that one is an action of the same agent. Also the share of
    those of the other agent that were compared."""
    await round_.create_topics(beside=True)
    inputs = round_.topic(ACTIONS)

    def messages(turn: int, compared: bool) -> list[Message]:
        return list(_mix(inputs, seed * 100 + turn, compared=compared))

    with bench_env.worker(round_, **ENCODER) as child:
        await bench_env.wait_until_ready(round_, child)
        beside = await measure_by_turns(round_, RATE, TURNS, TURN_WARM_UP_S, messages)
    verdicts = [
        orjson.loads(record.value)
        for record in await bench_env.read_committed(round_.bootstrap, round_.topic(VERDICTS))
    ]
    others = [verdict for verdict in verdicts if verdict["agent_id"] == LIKENED]
    return beside, sum(map(_is_compared, others)) / len(others)


def _mix(inputs: str, seed: int, *, compared: bool) -> Iterator[Message]:
    for number, (session, value) in enumerate(events(RATE * TURN_S, seed, 1)):
        if number % ONE_IN:
            yield Message(inputs, session, value)
            continue
        alone = f"alone-{seed}-{number}"
        fields = {**orjson.loads(value), "session_id": alone}
        fields["agent_id"] = LIKENED if compared else fields["agent_id"]
        yield Message(inputs, alone.encode(), orjson.dumps(fields), outputs=0)


def _is_compared(verdict: dict[str, Any]) -> bool:
    details = [result["detail"] for result in verdict["gateResults"] if result["gate"] == "similarity"]
    return any("probability" in detail for detail in details)


def _rate(times_ms: list[int]) -> float:
    return len(times_ms) / max(1, times_ms[-1] - times_ms[0]) * 1000


def events(count: int, seed: int, lot: int) -> Iterator[tuple[bytes, bytes]]:
    """Messages (key, value); two lots of one seed differ in their ids alone."""
    chance = random.Random(seed)
    for number in range(count):
        row, salt = chance.choice(action_events.panel()), f"q{chance.getrandbits(24):06x}"
        session = f"session-{seed}-{lot}-{number % SESSIONS:04d}"
        fields: dict[str, Any] = action_events.action(row, number, session)
        fields["parameters"] = action_events.add_salt(row.tool, row.parameters, salt)
        yield session.encode(), json.dumps(fields).encode()
