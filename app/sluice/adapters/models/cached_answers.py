"""Answers of a model that are kept, so that the same question of the same scope is asked once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from sluice.adapters.models.guarded_model import Breaker, BreakerOpen
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.strict import json_object
from sluice.secrets.redis_seal import OVERHEAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sluice.adapters.models.prompted_port import PromptedPort
    from sluice.core.foundation.requests import Asker
    from sluice.secrets.redis_seal import Seal

log = logging.getLogger(__name__)
STORE_S = 0.004
"""Seconds that a decision waits for a look into the store: a twentieth of the 80 ms that a grader has."""
LONGEST_S = 1.0
"""Of what Redis is told, where nobody waits any more."""
MOST_UNDER_WAY = 64
"""Commands that Redis has not answered; with more, nothing is looked up."""
STORE_FAILURES, STORE_OPEN_S = 3, 5.0
LONGEST_ENTRY = 64 * 1024


class AnswerStore(Protocol):
    """Keeps answers by name where other workers find them. It may forget any of them at any time."""

    async def find(self, name: bytes) -> object:
        """A JSON value that was kept under this name, or None; None too where that takes long."""

    def keep(self, name: bytes, answer: object) -> None:
        """Keep a JSON value, soon, if it can be done."""

    async def start(self) -> None:
        """Make a connection ready; do without where there is none to be had."""

    async def close(self) -> None:
        """Give up connections. May be called again."""


class SharedAnswers:
    """A Redis. While it is away or slow it is done without: that costs time, and no answer.

    Entries are sealed, so that whoever can write to the Redis alone cannot make an answer, or put one in
    another's place. Their names are keyed: a plain digest of a question would let whoever reads the Redis
    test what it was about, a person's data too.
    """

    def __init__(self, url: str, prefix: str, seal: Seal, kept_s: int, look_s: float = STORE_S) -> None:
        """`prefix`: of every key, so that installations can share a Redis; `kept_s`: until an answer is
        forgotten; `look_s`: what a look may take. Raises ValueError for no URL, ImportError without the
        package redis."""
        from redis.asyncio import Redis  # noqa: PLC0415 - only where it is set
        from redis.asyncio.retry import Retry  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.exceptions import RedisError, ResponseError  # noqa: PLC0415

        self._redis: Any = Redis.from_url(
            url, socket_timeout=LONGEST_S, socket_connect_timeout=LONGEST_S, retry=Retry(NoBackoff(), 0)
        )
        self._prefix = f"{prefix}sluice:answer:"
        self._seal = seal
        self._kept_s = kept_s
        self._look_s = look_s
        self._down = (RedisError, OSError, TimeoutError)
        self._refused = ResponseError
        self._under_way: set[asyncio.Task[object]] = set()
        self._breaker = Breaker("the Redis of kept answers", STORE_FAILURES, STORE_OPEN_S, self._down)

    async def find(self, name: bytes) -> object:
        """See AnswerStore."""
        entry = await self._look("GETRANGE", self._name_entry(name), 0, LONGEST_ENTRY)
        text = self._seal.unseal(name, entry) if isinstance(entry, bytes) and entry else None
        try:
            return None if text is None else json_object(text)
        except ValueError:
            return None

    def keep(self, name: bytes, answer: object) -> None:
        """See AnswerStore."""
        text = canonical(answer)
        if OVERHEAD + len(text) > LONGEST_ENTRY:
            return
        entry = self._seal.seal(name, text, time.time() + self._kept_s)
        self._begin("SET", self._name_entry(name), entry, "EX", self._kept_s)

    async def close(self) -> None:
        """See AnswerStore."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._redis.aclose()

    async def start(self) -> None:
        """See AnswerStore."""
        await self._begin("PING")

    def _name_entry(self, name: bytes) -> str:
        return self._prefix + self._seal.digest_name(name)

    def _begin(self, *words: Any) -> asyncio.Task[object]:
        telling = asyncio.ensure_future(self._ask_redis(words))
        self._under_way.add(telling)
        telling.add_done_callback(self._under_way.discard)
        return telling

    async def _look(self, *words: Any) -> object:
        """What Redis says at once, else None. What it says later is dropped; then at least a connection is
        there for the next look."""
        if len(self._under_way) >= MOST_UNDER_WAY:
            return None
        telling = self._begin(*words)
        await asyncio.wait({telling}, timeout=self._look_s)
        return telling.result() if telling.done() else None

    async def _ask_redis(self, words: tuple[Any, ...]) -> object:
        """What Redis says, None where it is away or refuses."""
        try:
            with self._breaker.attempt():
                return await self._execute(words)
        except (BreakerOpen, *self._down):
            return None

    async def _execute(self, words: tuple[Any, ...]) -> object:
        try:
            async with asyncio.timeout(LONGEST_S):
                reply: object = await self._redis.execute_command(*words)
                return reply
        except self._refused as error:
            log.warning("the Redis of kept answers refuses: %s", error)
            return None


@dataclass(slots=True)
class _Question:
    """A question that is under way, and how many wait for its answer."""

    task: asyncio.Task[object]
    askers: int = 0


class CachedAnswers:
    """A prompted port whose answers are kept, in this process and in a store if there is one.

    Everything that an answer depends on is part of its name: the model, the prompt and the whole payload, in
    which the core names the tenant, the bundle's hash and the rule. Only answers are kept, no failures. A
    question that is under way already is not asked again; it goes on until nobody waits for it any more.
    Only a question that has to be asked waits for a turn.
    """

    waits_in_queue = False

    def __init__(self, inner: PromptedPort, most: int, store: AnswerStore | None = None) -> None:
        """`most`: how many answers are kept here; those not asked for the longest go first."""
        self._inner = inner
        self._most = most
        self._store = store
        self._cached: OrderedDict[bytes, object] = OrderedDict()
        self._under_way: dict[bytes, _Question] = {}
        self._looked_up: set[bytes] = set()

    @asynccontextmanager
    async def turn(self, payload: object, asker: Asker) -> AsyncIterator[float]:
        """See `Queued`."""
        name = self._name_question(payload)
        if name in self._cached or name in self._under_way or await self._find(name):
            yield 0.0
            return
        self._looked_up.add(name)
        try:
            async with self._inner.turn(payload, asker) as waited_s:
                yield waited_s
        finally:
            self._looked_up.discard(name)

    async def ask(self, payload: object) -> object:
        """Return the remembered answer, or the inner port's. Raises PortUnavailable and PortBusy."""
        cached = self.recall(payload)
        if cached is not None:
            return cached
        name = self._name_question(payload)
        asked = self._under_way.get(name)
        if asked is None:
            asked = self._under_way[name] = _Question(asyncio.ensure_future(self._answer(name, payload)))
        asked.askers += 1
        try:
            return await asyncio.shield(asked.task)
        finally:
            asked.askers -= 1
            if asked.task.done() or not asked.askers:
                asked.task.cancel()
                if self._under_way.get(name) is asked:
                    del self._under_way[name]

    def recall(self, payload: object) -> object | None:
        """The answer that is kept in this process, else None."""
        name = self._name_question(payload)
        if name not in self._cached:
            return None
        self._cached.move_to_end(name)
        return self._cached[name]

    def _name_question(self, payload: object) -> bytes:
        return sha256(canonical([*self._inner.asks, payload])).digest()

    async def _answer(self, name: bytes, payload: object) -> object:
        if name not in self._looked_up and await self._find(name):
            return self._cached[name]
        answer = await self._inner.ask(payload)
        self._remember(name, answer)
        if self._store is not None:
            self._store.keep(name, answer)
        return answer

    async def _find(self, name: bytes) -> bool:
        """Whether the store has the answer, which is then kept here too."""
        stored = None if self._store is None else await self._store.find(name)
        if stored is None or self._inner.read(stored) is None:
            return False
        self._remember(name, stored)
        return True

    def _remember(self, name: bytes, answer: object) -> None:
        self._cached[name] = answer
        if len(self._cached) > self._most:
            self._cached.popitem(last=False)

    async def start(self) -> None:
        """Start the store and the inner port."""
        if self._store is not None:
            await self._store.start()
        await self._inner.start()

    async def close(self) -> None:
        """Close every connection."""
        if self._store is not None:
            await self._store.close()
        await self._inner.close()
