"""Answers of a model that are kept, so that the same question of the same scope is asked once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from sluice.adapters.models.guarded_model import Breaker, BreakerOpen, SaysNothing
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.strict import json_object
from sluice.redis_seal import OVERHEAD

if TYPE_CHECKING:
    from sluice.adapters.models.prompted_port import PromptedPort
    from sluice.redis_seal import Seal

log = logging.getLogger(__name__)
STORE_S = 0.025
"""Seconds that a look into the store may take: a part of the 80 ms that a grader has."""
BUSY = 2
"""So many times as late a look may end before it says that this process was busy."""
LONGEST_S = 1.0
"""Of a socket below, where nobody waits any more."""
STORE_FAILURES, STORE_OPEN_S = 3, 5.0
LONGEST_ENTRY = 64 * 1024


class AnswerStore(Protocol):
    """Keeps answers by name where other workers find them. It may forget any of them at any time."""

    async def find(self, name: bytes) -> object:
        """A JSON value that was kept under this name, or None; None too where that takes long."""

    def keep(self, name: bytes, answer: object) -> None:
        """Keep a JSON value, soon, if it can be done."""

    async def close(self) -> None:
        """Give up connections. May be called again."""


class SharedAnswers:
    """A Redis. While it is away or slow it is done without: that costs time, and no answer.

    Entries are sealed, so that whoever can write to the Redis alone cannot make an answer, or put one in
    another's place.
    """

    def __init__(self, url: str, prefix: str, seal: Seal, kept_s: int) -> None:
        """`prefix`: of every key, so that installations can share a Redis; `kept_s`: until an answer is
        forgotten. Raises ValueError for no URL, ImportError without the package redis."""
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
        self._down = (RedisError, OSError, TimeoutError)
        self._refused = ResponseError
        self._keeping: set[asyncio.Task[object]] = set()
        self._breaker = Breaker("the Redis of kept answers", STORE_FAILURES, STORE_OPEN_S, self._down)

    async def find(self, name: bytes) -> object:
        """See AnswerStore."""
        key = self._prefix + name.hex()
        entry = await self._told("GETRANGE", key, 0, LONGEST_ENTRY)
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
        telling = self._told("SET", self._prefix + name.hex(), entry, "EX", self._kept_s)
        keeping = asyncio.ensure_future(telling)
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)

    async def close(self) -> None:
        """See AnswerStore."""
        if self._keeping:
            await asyncio.wait(self._keeping)
        await self._redis.aclose()

    async def _told(self, *words: Any) -> object:
        """What Redis says, or None where it does not say it in time."""
        try:
            with self._breaker.attempt():
                return await self._in_time(words)
        except (BreakerOpen, SaysNothing, *self._down):
            return None

    async def _in_time(self, words: tuple[Any, ...]) -> object:
        """Where this process itself was busy for longer, it is not Redis that was slow."""
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(STORE_S):
                said: object = await self._redis.execute_command(*words)
                return said
        except self._refused as error:
            log.warning("the Redis of kept answers refuses: %s", error)
            return None
        except TimeoutError:
            if time.monotonic() - began_s < BUSY * STORE_S:
                raise
        raise SaysNothing


@dataclass(slots=True)
class _Asked:
    """A question that is under way, and how many wait for its answer."""

    task: asyncio.Task[object]
    askers: int = 0


class KeptAnswers:
    """A prompted port whose answers are kept, in this process and in a store if there is one.

    Everything that an answer depends on is part of its name: the model, the prompt and the whole payload, in
    which the core names the tenant, the bundle's hash and the rule. Only answers are kept, no failures. A
    question that is under way already is not asked again; it goes on until nobody waits for it any more.
    """

    def __init__(self, inner: PromptedPort, most: int, store: AnswerStore | None = None) -> None:
        """`most`: how many answers are kept here; those not asked for the longest go first."""
        self._inner = inner
        self._most = most
        self._store = store
        self._kept: OrderedDict[bytes, object] = OrderedDict()
        self._under_way: dict[bytes, _Asked] = {}

    async def ask(self, payload: object) -> object:
        """As the inner port answers. Raises PortUnavailable and PortBusy."""
        known = self.recall(payload)
        if known is not None:
            return known
        name = self._name(payload)
        asked = self._under_way.get(name)
        if asked is None:
            asked = self._under_way[name] = _Asked(asyncio.ensure_future(self._answer(name, payload)))
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
        name = self._name(payload)
        if name not in self._kept:
            return None
        self._kept.move_to_end(name)
        return self._kept[name]

    def _name(self, payload: object) -> bytes:
        return sha256(canonical([*self._inner.asks, payload])).digest()

    async def _answer(self, name: bytes, payload: object) -> object:
        if self._store is not None:
            found = await self._store.find(name)
            if found is not None and self._inner.read(found) is not None:
                self._remember(name, found)
                return found
        answer = await self._inner.ask(payload)
        self._remember(name, answer)
        if self._store is not None:
            self._store.keep(name, answer)
        return answer

    def _remember(self, name: bytes, answer: object) -> None:
        self._kept[name] = answer
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    async def start(self) -> None:
        """As the inner port."""
        await self._inner.start()

    async def close(self) -> None:
        """Close every connection."""
        if self._store is not None:
            await self._store.close()
        await self._inner.close()
