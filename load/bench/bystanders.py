"""Actions in a worker whose memory writes ask the encoder, beside the same worker without one.

One input in twenty is a memory write in a session of its own. Timed are the actions alone, from before the
send to the committed verdict's arrival: nothing of theirs needs the encoder.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from load.bench import bench_env, events, reading, writes
from load.bench.latency import Latency, Message, Probe
from topics.catalog import ACTIONS, MEMORY_DECISIONS, MEMORY_WRITES, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.bench.bench_env import Round

RATE = 200
SECONDS = 30
WARM_UP_S = 8
PATIENCE_S = 60
SESSIONS = 400
ONE_IN = 20
ENCODER = {"SLUICE_EMBEDDING__ENCODER": "all-minilm-l6-v2"}


@dataclass(frozen=True, slots=True)
class Beside:
    """The actions' latency; which share of the writes was decided, and of these measured by the encoder."""

    actions: Latency
    decided: float
    measured: float


async def beside_writes(round_: Round, seed: int, *, similarity: bool) -> Beside:
    """The worker with the encoder, or without."""
    await round_.create_topics(similarity=similarity)
    messages = list(mixed(round_.topic(ACTIONS), round_.topic(MEMORY_WRITES), RATE * SECONDS, seed))
    with bench_env.worker(round_, **(ENCODER if similarity else {})) as child:
        await bench_env.until_ready(round_, child)
        probe = Probe(round_.bootstrap, round_.topic(ACTIONS), round_.topic(VERDICTS))
        await probe.run(RATE, messages)
        decided = await _decided(round_, len(messages) // ONE_IN)
    measured = sum(orjson.loads(one.value)["similarity"]["status"] == "measured" for one in decided)
    share = len(decided) / (len(messages) // ONE_IN)
    return Beside(probe.result(WARM_UP_S), share, measured / max(1, len(decided)))


async def _decided(round_: Round, count: int) -> list[Any]:
    """The decisions on all writes, or on those that came in time: the encoder may lag behind."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = await reading.committed(round_.bootstrap, round_.topic(MEMORY_DECISIONS))
        if len(found) >= count or time.monotonic() > deadline:
            return found
        await asyncio.sleep(1)


def mixed(actions: str, written: str, count: int, seed: int) -> Iterator[Message]:
    """`count` messages of which every twentieth is a write, a panel text as long as it is there."""
    chance = random.Random(seed)
    rows = writes.rows_of("benign")
    for number, (key, value) in enumerate(events.events(count, SESSIONS, seed)):
        if number % ONE_IN:
            yield Message(actions, key, value)
        else:
            session = f"memories-{seed}-{number:06d}"
            text = writes.salted(chance.choice(rows), chance)
            yield Message(written, session.encode(), orjson.dumps(writes.fields(text, number, session)))
