"""Actions beside others that cost more, timed from before the send to the committed verdict's arrival.

The others are of one session that is as large as the rules let it be, or are compared with known ones.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import orjson

from load.bench.fixtures import action_events, bench_env
from load.bench.fixtures.bench_policy import LIKENED
from load.bench.workers.latency import ONE_IN, Beside, Message, measure_by_turns
from sluice.core.state.session import KEY_PREFIX, PAGE_PREFIX
from sluice_topics.catalog import ACTIONS, OUTCOMES, SESSION_EVENTS, SESSIONS_CHANGELOG, VERDICTS
from sluice_topics.records.base import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from load.bench.fixtures.bench_env import Round
    from sluice.adapters.kafka.kafka_read import StoredRecord

RATE = 200
SESSIONS = 400
BYSTANDER_RATE, TURNS, TURN_S, TURN_WARM_UP_S = 50, 3, 14, 4
COMPARED_SESSIONS = 200
LARGE, SMALL, LARGE_ACTIONS, LARGE_ONE_IN = "large-session", "small-session", 1024, 5
ENCODER = {"SLUICE_EMBEDDING__ENCODER": "all-minilm-l6-v2"}


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


async def actions_beside_compared(round_: Round, seed: int) -> tuple[Beside, float]:
    """How long actions that are compared with nothing take, while one in twenty, of another agent and in a
    session of its own, is compared, and while that one is an action of the same agent. Also the share of
    those of the other agent that were compared."""
    await round_.create_topics(beside=True)
    inputs = round_.topic(ACTIONS)

    def messages(turn: int, compared: bool) -> list[Message]:
        return list(_mix_compared(inputs, seed * 100 + turn, compared=compared))

    with bench_env.worker(round_, **ENCODER) as child:
        await bench_env.wait_until_ready(round_, child)
        beside = await measure_by_turns(round_, RATE, TURNS, TURN_WARM_UP_S, messages)
    verdicts = [
        orjson.loads(record.value)
        for record in await bench_env.read_committed(round_.bootstrap, round_.topic(VERDICTS))
    ]
    others = [verdict for verdict in verdicts if verdict["agent_id"] == LIKENED]
    return beside, sum(map(_is_compared, others)) / len(others)


def _mix_compared(inputs: str, seed: int, *, compared: bool) -> Iterator[Message]:
    for number, (session, value) in enumerate(_make_fresh(RATE * TURN_S, seed)):
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


def _make_fresh(count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """Messages (key, value) of texts that nobody compared before."""
    chance = random.Random(seed)
    for number in range(count):
        row, salt = chance.choice(action_events.panel()), f"q{chance.getrandbits(24):06x}"
        session = f"session-{seed}-{number % COMPARED_SESSIONS:04d}"
        fields: dict[str, Any] = action_events.action(row, number, session)
        fields["parameters"] = action_events.add_salt(row.tool, row.parameters, salt)
        yield session.encode(), json.dumps(fields).encode()
