"""How long a freeze of everything takes to hold: from its place in the registry to the last allowed verdict,
and to the last tool that starts, with a worker at a fixed rate.

Beside the load, calls that were allowed wait before their tools start, as after an approval: in one client
that follows the registry and asks again, and in one that does not. All times are the clock of one machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from load.bench.fixtures import action_events, bench_env
from load.bench.measurement import none, report, require_at_most
from load.bench.workers.latency import SESSIONS, Message, Probe
from sluice.bootstrap.followed_freezes import follow_freezes
from sluice.client import ActionRefused, AsyncGateClient, ClientOptions
from sluice.client.freezes import StartingCall
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ACTIONS, REGISTRY, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from sluice.bootstrap.followed_freezes import FollowedFreezes

RATE, SECONDS, FREEZE_AFTER_S = 100, 20, 12.0
HELD_S = 2.0
"""How long a call that is allowed waits before its tool starts."""
CALLS_A_SECOND = 20
QUESTIONS = 20_000
MOST_MS = 1_000.0
FREEZE: dict[str, Any] = {
    "kind": "freeze",
    "id": "all",
    "revision": 1,
    "spec": {"subject": "all", "subject_id": "all", "reason": "a benchmark", "active": True},
}


@dataclass(frozen=True, slots=True)
class Stopping:
    """Of one round. Times in ms from the freeze's place in the registry: of the input of the last allowed
    verdict, of that verdict, of the last tool started by a client that asks again, and by one that does not;
    `question_us`: what the question before a start costs; `missing`: actions without a verdict."""

    last_input_ms: float
    last_verdict_ms: float
    last_start_ms: float
    unasked_start_ms: float
    question_us: float
    missing: int


async def measure_stopping(round_: Round, seed: int) -> Stopping:
    """Freeze everything in the middle of the load. Raises RuntimeError where no tool had started before."""
    await round_.create_topics()
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        probe = Probe(round_.bootstrap, round_.topic(ACTIONS), round_.topic(VERDICTS))
        events = action_events.events(RATE * SECONDS, SESSIONS, seed)
        load = asyncio.create_task(
            probe.run(RATE, [Message(round_.topic(ACTIONS), *event) for event in events])
        )
        views = [_follow(round_), None]
        callers = [asyncio.create_task(_start_tools(round_, view)) for view in views]
        await asyncio.sleep(FREEZE_AFTER_S)
        records = round_.trust.sign_entries([FREEZE])
        await publish_policy(round_.bootstrap, round_.layout.prefix, records)
        asked, unasked = await asyncio.gather(*callers)
        await load
        question_us = await _time_question(round_)
    frozen_ms = await _find_freeze(round_)
    verdicts = await bench_env.read_committed(round_.bootstrap, round_.topic(VERDICTS))
    allowed = [
        (record.timestamp, body["input"]["timestamp"])
        for record in verdicts
        if (body := json.loads(record.value))["verdict"] == "allowed"
    ]
    if not (asked and unasked and min(asked) < frozen_ms):
        raise RuntimeError("no tool started before the freeze: the machine is too busy to measure it")
    return Stopping(
        max(at for _, at in allowed) - frozen_ms,
        max(at for at, _ in allowed) - frozen_ms,
        max(asked) - frozen_ms,
        max(unasked) - frozen_ms,
        question_us,
        probe.missing,
    )


def compare_stopping(every: Sequence[Stopping]) -> list[Measurement]:
    """The figures of all rounds."""
    return [
        require_at_most(
            f"freeze to the last action that is allowed, at {RATE}/s",
            [stopping.last_input_ms for stopping in every],
            MOST_MS,
            "ms",
        ),
        report("freeze to the last allowed verdict", [stopping.last_verdict_ms for stopping in every], "ms"),
        require_at_most(
            f"freeze to the last tool started, {HELD_S:g} s after its verdict, asked again",
            [stopping.last_start_ms for stopping in every],
            MOST_MS,
            "ms",
        ),
        report(
            "the same, not asked again",
            [stopping.unasked_start_ms for stopping in every],
            "ms",
            "what asking is for",
        ),
        report("the question before a start", [stopping.question_us for stopping in every], "µs"),
        none("missing verdicts", [float(stopping.missing) for stopping in every], "actions"),
    ]


def _follow(round_: Round) -> FollowedFreezes:
    audience = round_.trust.make_audience(round_.layout.prefix)
    return follow_freezes(round_.bootstrap, [round_.trust.root_key], audience)()


async def _start_tools(round_: Round, view: FollowedFreezes | None) -> list[float]:
    """When tools started (ms since 1970): calls come all the time, and each waits after its verdict."""
    starts: list[float] = []
    options = ClientOptions(
        topic_prefix=round_.layout.prefix,
        deadline_s=60.0,
        freezes=None if view is None else lambda: view,
    )
    async with AsyncGateClient(round_.bootstrap, action_events.AGENT, options) as client:

        async def call(number: int) -> None:
            values = next(action_events.events(1, 1, number))[1]
            action = json.loads(values)
            asked: dict[str, Any] = {
                "tool_name": action["toolName"],
                "parameters": action["parameters"],
                "session_id": f"held-{number}-{view is None}",
                "action_id": f"held-{number}",
                "rows_affected": 1,
            }
            if not (await client.await_verdict(**asked)).allowed:
                return
            await asyncio.sleep(HELD_S)
            try:
                permit = await client.permit(**asked)
            except ActionRefused:
                return
            starts.append(time.time() * 1000)
            await client.finish(permit)

        calls = []
        for number in range(int(CALLS_A_SECOND * (SECONDS - HELD_S))):
            calls.append(asyncio.create_task(call(number)))
            await asyncio.sleep(1 / CALLS_A_SECOND)
        await asyncio.gather(*calls)
    return starts


async def _time_question(round_: Round) -> float:
    """Microseconds of one question, with the freeze in force."""
    view = _follow(round_)
    await view.start()
    call = StartingCall(action_events.AGENT, "s", {})
    began = time.perf_counter()
    for _ in range(QUESTIONS):
        view.find_stop(call)
    took_s = time.perf_counter() - began
    await view.close()
    return took_s / QUESTIONS * 1e6


async def _find_freeze(round_: Round) -> int:
    """The broker's time of the freeze, ms."""
    entries = await bench_env.read_committed(round_.bootstrap, round_.topic(REGISTRY))
    return next(int(entry.timestamp) for entry in entries if entry.key == b"freeze/all@1")
