"""Actions beside what costs more: timed from before the send to the committed verdict's arrival.

Memory writes that ask the encoder, beside the same worker without one: one input in twenty is a memory write
in a session of its own. One session that is as large as the rules let it be, beside the same worker while a
small session acts in its place.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from load.bench.fixtures import action_events, bench_env, memory_writes
from load.bench.workers.latency import ONE_IN, Beside, Latency, Message, Probe, measure_by_turns
from sluice.core.state.session import KEY_PREFIX, PAGE_PREFIX
from sluice_topics.catalog import (
    ACTIONS,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    SESSION_EVENTS,
    SESSIONS_CHANGELOG,
    VERDICTS,
)
from sluice_topics.records.base import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from load.bench.fixtures.bench_env import Round
    from sluice.adapters.kafka.kafka_read import StoredRecord

RATE = 200
SECONDS = 30
WARM_UP_S = 8
PATIENCE_S = 60
SESSIONS = 400
BYSTANDER_RATE, TURNS, TURN_S, TURN_WARM_UP_S = 50, 3, 14, 4
LARGE, SMALL, LARGE_ACTIONS, LARGE_ONE_IN = "large-session", "small-session", 1024, 5
ENCODER = {"SLUICE_EMBEDDING__ENCODER": "all-minilm-l6-v2"}


@dataclass(frozen=True, slots=True)
class BystanderFigures:
    """The actions' latency; which share of the writes was decided, and of these measured by the encoder."""

    actions: Latency
    decided: float
    measured: float


async def actions_with_writes(round_: Round, seed: int, *, similarity: bool) -> BystanderFigures:
    """The worker with the encoder, or without."""
    await round_.create_topics(similarity=similarity)
    messages = list(mix(round_.topic(ACTIONS), round_.topic(MEMORY_WRITES), RATE * SECONDS, seed))
    with bench_env.worker(round_, **(ENCODER if similarity else {})) as child:
        await bench_env.wait_until_ready(round_, child)
        probe = Probe(round_.bootstrap, round_.topic(ACTIONS), round_.topic(VERDICTS))
        await probe.run(RATE, messages)
        decided = await _await_decisions(round_, len(messages) // ONE_IN)
    measured = sum(orjson.loads(record.value)["similarity"]["status"] == "measured" for record in decided)
    share = len(decided) / (len(messages) // ONE_IN)
    return BystanderFigures(probe.result(WARM_UP_S), share, measured / max(1, len(decided)))


async def actions_with_large_session(round_: Round, seed: int) -> tuple[Beside, int]:
    """In one worker by turns: the others beside a small session, and beside the large one. Also the bytes of
    the large one's state."""
    await round_.create_topics()
    inputs = round_.topic(ACTIONS)
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        await _fill_large(round_)

        def messages(turn: int, large: bool) -> list[Message]:
            session = LARGE if large else f"{SMALL}-{turn}"
            return list(_add_session(inputs, seed * 100 + turn, session))

        beside = await measure_by_turns(round_, BYSTANDER_RATE, TURNS, TURN_WARM_UP_S, messages)
    changelog = await bench_env.read_committed(round_.bootstrap, round_.topic(SESSIONS_CHANGELOG))
    return beside, max(_count_written(changelog, LARGE.encode()))


def _count_written(changelog: Iterable[StoredRecord], session: bytes) -> Iterator[int]:
    """What each transaction wrote of a session: its head, and the pages before it."""
    size = 0
    for record in changelog:
        key = record.key or b""
        if key.startswith(PAGE_PREFIX) and key.endswith(b":" + session):
            size += len(record.value or b"")
        elif key == KEY_PREFIX + session:
            yield size + len(record.value or b"")
            size = 0


async def _fill_large(round_: Round) -> None:
    """As many actions as are remembered, under the longest ids that are kept, with the largest counts; then
    an outcome of each."""
    messages = [(LARGE.encode(), _large(number)) for number in range(LARGE_ACTIONS)]
    await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), messages)
    await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), LARGE_ACTIONS)
    outcomes = [(LARGE.encode(), _outcome(number)) for number in range(LARGE_ACTIONS)]
    await bench_env.publish(round_.bootstrap, round_.topic(OUTCOMES), outcomes)
    await bench_env.wait_until_written(round_.bootstrap, round_.topic(SESSION_EVENTS), LARGE_ACTIONS)


def _large(number: int, session: str = LARGE) -> bytes:
    fields = {
        "action_id": f"large-{number:058d}",
        "agent_id": action_events.AGENT,
        "session_id": session,
        "mode": "standard",
        "toolName": "read_file",
        "parameters": {"path": "notes.txt"},
        "rows_affected": 0,
    }
    return orjson.dumps(fields).replace(b":0}", f":{MAX_COUNT}}}".encode())


def _outcome(number: int) -> bytes:
    fields = {
        "action_id": f"large-{number:058d}",
        "session_id": LARGE,
        "reported_by": action_events.AGENT,
        "rows_affected": 0,
    }
    return orjson.dumps(fields).replace(b":0}", f":{MAX_COUNT}}}".encode())


def _add_session(inputs: str, seed: int, session: str) -> Iterator[Message]:
    """The others' actions, and behind every fifth one of a session of which nothing is timed."""
    for number, (key, value) in enumerate(action_events.events(BYSTANDER_RATE * TURN_S, SESSIONS, seed)):
        yield Message(inputs, key, value)
        if number % LARGE_ONE_IN == 0:
            action = _large(LARGE_ACTIONS + seed * 10**6 + number, session)
            yield Message(inputs, session.encode(), action, outputs=0)


async def _await_decisions(round_: Round, count: int) -> list[Any]:
    """The decisions on all writes, or on those that came in time: the encoder may lag behind."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        committed = await bench_env.read_committed(round_.bootstrap, round_.topic(MEMORY_DECISIONS))
        if len(committed) >= count or time.monotonic() > deadline:
            return committed
        await asyncio.sleep(1)


def mix(acted: str, written: str, count: int, seed: int) -> Iterator[Message]:
    """`count` messages of which every twentieth is a write, a panel text as long as it is there."""
    chance = random.Random(seed)
    rows = memory_writes.rows_of("benign")
    for number, (key, value) in enumerate(action_events.events(count, SESSIONS, seed)):
        if number % ONE_IN:
            yield Message(acted, key, value)
        else:
            session = f"memories-{seed}-{number:06d}"
            text = memory_writes.add_salt(chance.choice(rows), chance)
            yield Message(
                written, session.encode(), orjson.dumps(memory_writes.fields(text, number, session))
            )
