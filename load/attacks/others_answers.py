"""Others' answers: get, spoil or find out what a model answered for another tenant.

Workers share a Redis in which the answers of models are kept. The attacker is a tenant whose questions are
those of another to the letter, under every scope that he can choose; he asks before, after and while the
other does. The model, its HTTP API and the Redis are real; how often the model was asked tells whose answer
it was.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr
from redis import Redis

from load.attacks.attempt import Attempt
from load.installations.model_server import KEY, MODEL, ModelServer
from load.installations.redis_server import RedisServer
from sluice.adapters.models.anthropic_model import AnthropicModel
from sluice.adapters.models.cached_answers import CachedAnswers, SharedAnswers
from sluice.adapters.models.model_api import ModelApiSettings
from sluice.adapters.models.prompted_port import BatchedPort, PromptedPort
from sluice.core.actions.causal import JUDGE
from sluice.core.actions.grading import GRADE
from sluice.core.foundation.requests import Asker
from sluice.secrets.redis_seal import Seal, SealKeys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from load.attacks.attempt import Extent
    from sluice.core.foundation.prompts import Prompt

TAKES_MS = 80
"""What the model takes for an answer: one that comes sooner was at hand."""
LOOK_S = 5.0
QUESTION = {"criterion": "The action is kind.", "tool": "note", "parameters": {"text": "the merger"}}
MINE = {"tenant": "acme", "bundle": "sha256:aa", "rule": "kind"}
THEIRS: dict[str, Any] = {
    "the other tenant": {**MINE, "tenant": "globex"},
    "a tenant whose name differs in case": {**MINE, "tenant": "Acme"},
    "a tenant whose name has a space behind": {**MINE, "tenant": "acme "},
    "a tenant whose name looks alike": {**MINE, "tenant": "\u0430cme"},
    "a tenant whose name has more letters than are seen": {**MINE, "tenant": "acme\u200b"},
    "a tenant whose name goes on as JSON": {**MINE, "tenant": 'acme","bundle":"sha256:aa'},
    "a tenant whose name holds the rule": {"tenant": "acmekind", "bundle": "sha256:aa", "rule": ""},
    "another bundle": {**MINE, "bundle": "sha256:bb"},
    "another rule": {**MINE, "rule": "kinder"},
    "no scope": {},
    "no tenant": {"bundle": "sha256:aa", "rule": "kind"},
    "a tenant that is a list": {**MINE, "tenant": ["acme"]},
}


class ModelClient:
    """A model's client and the answers that it keeps; `asked`: how often the model was."""

    def __init__(self, port: CachedAnswers, model: AnthropicModel) -> None:
        self.port, self._model = port, model

    @property
    def asked(self) -> int:
        """So far."""
        return self._model.usage.calls

    async def ask(self, scope: dict[str, Any], question: Any = QUESTION) -> bool:
        """Whether the model was asked for this answer, and took its time."""
        before, began = self.asked, time.monotonic()
        payload = {"scope": scope, "question": question}
        async with self.port.turn(payload, Asker(str(scope.get("tenant")), "agent")):
            await self.port.ask(payload)
        return self.asked == before + 1 and time.monotonic() - began >= TAKES_MS / 1000


class SharedWorkers:
    """Where workers run."""

    def __init__(self, base_url: str, redis: RedisServer, client: Redis) -> None:
        self.base_url, self.redis, self.client = base_url, redis, client

    @asynccontextmanager
    async def worker(self, prompt: Prompt[Any] = GRADE, model: str = MODEL) -> AsyncIterator[ModelClient]:
        """One that has just started: nothing is kept in it yet."""
        settings = ModelApiSettings(model, self.base_url, 20_000, 2048, 0, 8, None)
        hosted = AnthropicModel(SecretStr(KEY), settings)
        seal = Seal(SealKeys(self.redis.key_file), "model answer")
        store = SharedAnswers(self.redis.url, "x.", seal, 60, LOOK_S)
        port = CachedAnswers(PromptedPort(prompt, hosted), 100, store)
        await port.start()
        try:
            yield ModelClient(port, hosted)
        finally:
            await port.close()

    def keys(self) -> set[Any]:
        """Of the answers that the Redis has."""
        names: Any = self.client.keys("x.sluice:answer:*")
        return set(names)


def run(extent: Extent) -> Iterator[Attempt]:
    """Each scope before and after the other's; the short form has fewer of them."""
    scopes = dict([*THEIRS.items()][:: 4 if extent == "short" else 1])
    with (
        TemporaryDirectory() as folder,
        RedisServer(Path(folder)) as redis,
        Redis.from_url(redis.url) as client,
        ModelServer(TAKES_MS) as model,
    ):
        yield from asyncio.run(_attack(SharedWorkers(model.base_url, redis, client), scopes))


async def _attack(workers: SharedWorkers, scopes: dict[str, Any]) -> list[Attempt]:
    attempts: list[Attempt] = []
    for tried, scope in scopes.items():
        attempts += await _try_scope(workers, tried, scope)
    attempts += await _other_askers(workers)
    attempts += await _ask_at_once(workers)
    attempts += await _together(workers)
    attempts.append(await _copy_answer(workers))
    others = sum(not attempt.harmless for attempt in attempts)
    gained = sum(not attempt.harmless and not attempt.held for attempt in attempts)
    result = f"{gained} of {others} questions were answered by another's answer, must be 0"
    return [*attempts, Attempt("answers of others", gained == 0, result)]


async def _try_scope(workers: SharedWorkers, tried: str, scope: dict[str, Any]) -> list[Attempt]:
    """In the worker that has the other's answer, in a new one, and before the other asks (poison)."""
    workers.client.flushall()
    async with workers.worker() as same:
        await same.ask(MINE)
        here = await same.ask(scope)
        again = not await same.ask(MINE)
    async with workers.worker() as other:
        is_cached = not await other.ask(MINE)
    workers.client.flushall()
    async with workers.worker() as poisoned:
        await poisoned.ask(scope)
        own = await poisoned.ask(MINE)
    return [
        Attempt(f"{tried}, after the other in the same worker", here, f"asked the model: {here}"),
        Attempt(f"{tried}, before the other", own, f"the other asked the model: {own}"),
        Attempt(
            f"one's own answer again, beside {tried}",
            again and is_cached,
            f"{again}, {is_cached}",
            harmless=True,
        ),
    ]


async def _other_askers(workers: SharedWorkers) -> list[Attempt]:
    """The same words of another model, of another prompt, and as a question that holds the scope."""
    workers.client.flushall()
    async with workers.worker() as first:
        await first.ask(MINE)
        nested = await first.ask({}, {"scope": MINE, "question": QUESTION})
    async with workers.worker(model="stand-in-2") as second:
        model = await second.ask(MINE)
    async with workers.worker(JUDGE) as third:
        prompt = await third.ask(MINE)
    named = {"a scope within the question": nested, "another model": model, "another prompt": prompt}
    return [Attempt(tried, asked, f"asked the model: {asked}") for tried, asked in named.items()]


async def _ask_at_once(workers: SharedWorkers) -> list[Attempt]:
    """Who asks while the other's question is under way gets an answer of his own, and takes none away."""
    workers.client.flushall()
    async with workers.worker() as worker:
        mine = [asyncio.create_task(worker.ask(MINE)) for _ in range(2)]
        theirs = [asyncio.create_task(worker.ask(THEIRS["the other tenant"])) for _ in range(2)]
        await asyncio.sleep(TAKES_MS / 4000)
        theirs[0].cancel()
        await asyncio.gather(*mine, *theirs, return_exceptions=True)
        asked, cached = worker.asked, len(workers.keys())
    each = f"the model was asked {asked} times, {cached} answers are kept"
    return [
        Attempt("both at once", asked >= 2 and cached == 2, each),
        Attempt("two of one tenant at once", asked == 2, each, harmless=True),
    ]


async def _together(workers: SharedWorkers) -> list[Attempt]:
    """Several questions at once keep their tenant each."""
    workers.client.flushall()
    asked = []
    async with workers.worker() as worker:
        port = BatchedPort(worker.port)
        for tenant in ("acme", "globex", "acme"):
            before = worker.asked
            payload = {
                "scope": {**MINE, "tenant": tenant},
                "questions": [QUESTION, {**QUESTION, "tool": "b"}],
            }
            await port.ask(payload | {"asker": [tenant, "agent"]})
            asked.append(worker.asked - before)
    result = f"the model was asked {asked} times"
    return [
        Attempt("several questions in one", asked[:2] == [2, 2], result),
        Attempt("several questions in one, again", asked[2] == 0, result, harmless=True),
    ]


async def _copy_answer(workers: SharedWorkers) -> Attempt:
    """Who writes to the Redis puts the other's answer where his own would be."""
    workers.client.flushall()
    async with workers.worker() as worker:
        await worker.ask(MINE)
        (theirs,) = workers.keys()
    async with workers.worker() as worker:
        await worker.ask(THEIRS["the other tenant"])
        (own,) = workers.keys() - {theirs}
    workers.client.copy(theirs, own, replace=True)
    async with workers.worker() as worker:
        asked = await worker.ask(THEIRS["the other tenant"])
    return Attempt("the other's answer, copied to the place of one's own", asked, f"asked the model: {asked}")
