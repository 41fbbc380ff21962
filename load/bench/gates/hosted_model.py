"""The grader's port: an answer that a Redis has, timed inside the port, and the real SDK beside a bare loop
of it before the same server."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from load.bench import measurement
from load.bench.measurement import judge, none, report, require_at_least, require_at_most, rounds_of
from load.installations.model_server import KEY, MODEL, ModelServer
from load.installations.redis_server import RedisServer
from sluice.adapters.models.anthropic_model import AnthropicModel
from sluice.adapters.models.cached_answers import CachedAnswers, SharedAnswers
from sluice.adapters.models.guarded_model import GuardedModel, LoadLimits
from sluice.adapters.models.model_api import ModelApiSettings
from sluice.adapters.models.prompted_port import PromptedPort
from sluice.core.actions.grading import GRADE
from sluice.core.foundation.prompts import user_turn
from sluice.secrets.redis_seal import Seal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from load.bench.measurement import Extent, Figures, Judge, Measurement

QUESTIONS = 2_000
CALLS = 400
AT_ONCE = 8
CHUNK = 40
CACHED_P99_MS = 4.0
OF_BARE = 0.8
FIGURES: dict[str, Judge] = {
    "kept answer from Redis, inside the port, p50": lambda name, rounds: report(name, rounds, "ms"),
    "kept answer from Redis, inside the port, p99": lambda name, rounds: require_at_most(
        name, rounds, CACHED_P99_MS, "ms"
    ),
    "kept answers that were asked again": lambda name, rounds: none(name, rounds, "questions"),
    "bare SDK, 8 at once": lambda name, rounds: report(name, rounds, "calls/s", "yardstick"),
    "port over the SDK, 8 at once": lambda name, rounds: report(name, rounds, "calls/s", "see the ratio"),
    "port over the SDK / bare SDK": lambda name, rounds: require_at_least(name, rounds, OF_BARE),
}


def figures(extent: Extent) -> list[Measurement]:
    """Both, each round in a process of its own."""
    return judge(rounds_of(one_round, extent, QUESTIONS, CALLS), FIGURES)


def one_round(questions: int, calls: int) -> Figures:
    """What one round measures."""
    measurement.settle()
    return asyncio.run(_round(questions, calls))


def payload(number: int) -> dict[str, Any]:
    """A question as the gate asks it, of about 600 bytes."""
    action = {"tool": "payments.refund", "parameters": {"order": number, "note": "broken on arrival " * 20}}
    scope = {"tenant": "bench", "bundle": "b" * 64, "rule": "refund_has_cause"}
    return {"scope": scope, "question": {"criterion": "The note says what went wrong.", "action": action}}


async def _round(questions: int, calls: int) -> Figures:
    with ModelServer() as server, TemporaryDirectory() as folder, RedisServer(Path(folder)) as redis:
        settings = ModelApiSettings(MODEL, server.base_url, 20_000, 2048, 0, AT_ONCE, None)
        model = GuardedModel(AnthropicModel(SecretStr(KEY), settings), LoadLimits(AT_ONCE, None, 5, 10.0))
        port = PromptedPort(GRADE, model)
        try:
            of_stored = await _measure_stored(port, redis, questions)
            return {**of_stored, **await _measure_beside_bare(port, settings, calls)}
        finally:
            await port.close()


async def _measure_stored(port: PromptedPort, redis: RedisServer, questions: int) -> Figures:
    """With no room in the process itself, so that each answer comes from Redis."""
    await port.ask(payload(0))  # the SDK imports half of itself at its first question
    store = SharedAnswers(redis.url, "bench.", Seal(lambda: (KEY.encode(),), "model answer"), 600)
    answers = CachedAnswers(port, 0, store)
    for start in range(0, questions, AT_ONCE):
        await asyncio.gather(*(answers.ask(payload(index)) for index in range(start, start + AT_ONCE)))
    await store.close()
    before = port.usage.calls
    took = []
    for number in range(questions):
        began = time.perf_counter()
        await answers.ask(payload(number))
        took.append((time.perf_counter() - began) * 1000)
    await store.close()
    took.sort()
    again = port.usage.calls - before
    return {
        "kept answer from Redis, inside the port, p50": took[len(took) // 2],
        "kept answer from Redis, inside the port, p99": took[int(len(took) * 0.99)],
        "kept answers that were asked again": float(again),
    }


async def _measure_beside_bare(port: PromptedPort, settings: ModelApiSettings, calls: int) -> Figures:
    """By turns in chunks, so that what else the machine does hits both."""
    import anthropic  # noqa: PLC0415 - its import is not measured

    client = anthropic.AsyncAnthropic(api_key=KEY, base_url=settings.base_url, max_retries=0)
    output = {"format": {"type": "json_schema", "schema": GRADE.schema}}

    async def bare(number: int) -> object:
        asked = user_turn(payload(number)["question"])
        create: Any = client.messages.create
        return await create(
            model=MODEL,
            max_tokens=settings.max_tokens,
            system=[{"type": "text", "text": GRADE.system, "cache_control": {"type": "ephemeral"}}],
            messages=[{"role": "user", "content": asked}],
            output_config=output,
        )

    async def ours(number: int) -> object:
        return await port.ask(payload(number))

    seconds = {"bare": 0.0, "ours": 0.0}
    ways: dict[str, Callable[[int], Awaitable[object]]] = {"bare": bare, "ours": ours}
    for way in ways.values():
        await _all_of(way, range(CHUNK))
    for start in range(0, calls, CHUNK):
        for name, way in ways.items():
            began = time.perf_counter()
            await _all_of(way, range(start, start + CHUNK))
            seconds[name] += time.perf_counter() - began
    await client.close()
    rate = {name: calls / took for name, took in seconds.items()}
    return {
        "bare SDK, 8 at once": rate["bare"],
        "port over the SDK, 8 at once": rate["ours"],
        "port over the SDK / bare SDK": rate["ours"] / rate["bare"],
    }


async def _all_of(way: Callable[[int], Awaitable[object]], numbers: range) -> None:
    left = iter(numbers)

    async def one_after_the_other() -> None:
        for number in left:
            await way(number)

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
