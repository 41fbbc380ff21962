"""Idempotency keys: the same request again gets the same answer, and is decided once.

Before an input is published, its bytes are remembered under the caller's key. Whoever finds them without an
answer (another gateway, or the same one after it was killed) publishes the same bytes again: the worker then
answers with the first decision. So no lease is needed, and no gateway waits for another one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha1, sha256
from typing import TYPE_CHECKING, Any, Protocol

from sluice.gateway.http.http_errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sluice.secrets.redis_seal import Seal

log = logging.getLogger(__name__)
KEPT_S = 24 * 3600
LONGEST_KEY = 255
LONGEST_ENTRY = 16 * 1024 * 1024
"""Bytes. A longer one in a Redis is none of ours."""
MOST_REPLACED = 3
ADD = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' and redis.call('STRLEN', KEYS[1]) <= tonumber(ARGV[3]) then
  local found = redis.call('GET', KEYS[1])
  if redis.sha1hex(found) ~= ARGV[4] then return {found, 'found'} end
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return {'', 'added'}
"""
"""Keep ARGV[1] if nothing is there, or what nobody of ours can have written: of another type, longer than
ARGV[3], or what ARGV[4] names by its SHA-1."""
SWEEP_EVERY = 1000
"""Requests between two deletions of what is older than KEPT_S."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What was answered: the body byte for byte, and `facts`: fields of ResponseFacts for its headers."""

    status: int
    body: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RememberedRequest:
    """A request under an idempotency key. `value`: the input's JSON text; `answer` None: not known yet."""

    fingerprint: str
    agent: str
    signs: bool
    session: str
    name: str
    value: str
    wait_s: float
    answer: StoredAnswer | None = None

    def serialize(self) -> bytes:
        """Return the bytes that a store keeps."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, raw: bytes) -> RememberedRequest:
        """Read what `serialize` wrote."""
        fields = json.loads(raw)
        answer = fields.pop("answer")
        return cls(**fields, answer=None if answer is None else StoredAnswer(**answer))


class IdempotencyStore(Protocol):
    """Keeps entries by name for KEPT_S."""

    async def add(self, name: str, entry: bytes) -> bytes | None:
        """Keep an entry if there is none of this name; the one that was there before, or None."""

    async def put(self, name: str, entry: bytes) -> None:
        """Replace an entry."""

    async def get(self, name: str) -> bytes | None:
        """The entry of this name; None: there is none."""

    async def close(self) -> None:
        """Give up files and connections."""


class SqliteAnswers:
    """The store of one gateway: a file that a killed gateway leaves to the next one, or memory."""

    def __init__(self, path: Path | None, now_s: Callable[[], float] = time.time) -> None:
        """Raises sqlite3.Error where the file cannot be opened."""
        self._now_s = now_s
        self._rows = sqlite3.connect(":memory:" if path is None else path, isolation_level=None)
        if path is not None:
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("PRAGMA synchronous=NORMAL")
        self._rows.execute(
            "CREATE TABLE IF NOT EXISTS answers "
            "(name TEXT PRIMARY KEY, entry BLOB NOT NULL, since_s REAL NOT NULL) WITHOUT ROWID"
        )
        self._since_swept = SWEEP_EVERY

    async def add(self, name: str, entry: bytes) -> bytes | None:
        """See IdempotencyStore."""
        now = self._now_s()
        self._since_swept += 1
        if self._since_swept >= SWEEP_EVERY:
            self._since_swept = 0
            self._rows.execute("DELETE FROM answers WHERE since_s < ?", (now - KEPT_S,))
        self._rows.execute("DELETE FROM answers WHERE name = ? AND since_s < ?", (name, now - KEPT_S))
        added = self._rows.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (name, entry, now))
        if added.rowcount == 1:
            return None
        found = self._rows.execute("SELECT entry FROM answers WHERE name = ?", (name,)).fetchone()
        return bytes(found[0])

    async def put(self, name: str, entry: bytes) -> None:
        """See IdempotencyStore."""
        self._rows.execute(
            "UPDATE answers SET entry = ?, since_s = ? WHERE name = ?", (entry, self._now_s(), name)
        )

    async def get(self, name: str) -> bytes | None:
        """See IdempotencyStore."""
        since = self._now_s() - KEPT_S
        found = self._rows.execute(
            "SELECT entry FROM answers WHERE name = ? AND since_s >= ?", (name, since)
        ).fetchone()
        return None if found is None else bytes(found[0])

    async def close(self) -> None:
        """See IdempotencyStore."""
        self._rows.close()


class RedisAnswers:
    """The store of any number of gateways. Redis being away is an error: without it nobody knows what was
    answered.

    What is there and was not sealed by one of them, for this very name, is replaced as if it were not there.
    """

    def __init__(self, url: str, prefix: str, seal: Seal) -> None:
        """`prefix`: of every key, so that installations can share a Redis. Raises ValueError for no URL."""
        from redis.asyncio import Redis  # noqa: PLC0415 - only where it is set

        self._redis: Any = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
        self._add = self._redis.register_script(ADD)
        self._prefix = prefix
        self._seal = seal

    async def add(self, name: str, entry: bytes) -> bytes | None:
        """See IdempotencyStore. Raises HttpError where Redis does not answer."""
        sealed, foreign = self._seal_entry(name, entry), ""
        for _ in range(MOST_REPLACED):
            args: list[bytes | int | str] = [sealed, KEPT_S, LONGEST_ENTRY, foreign]
            found, how = await self._await_redis(self._add(keys=[self._make_key(name)], args=args))
            if how == b"added":
                return None
            known = self._seal.unseal(name.encode(), found)
            if known is not None:
                return known
            foreign = sha1(found).hexdigest()  # noqa: S324 - as Redis names it
        log.warning("somebody writes to the Redis all the time: a request is decided without its memory")
        return None

    async def put(self, name: str, entry: bytes) -> None:
        """See IdempotencyStore. Raises HttpError where Redis does not answer."""
        await self._await_redis(
            self._redis.set(self._make_key(name), self._seal_entry(name, entry), ex=KEPT_S)
        )

    async def get(self, name: str) -> bytes | None:
        """See IdempotencyStore. Raises HttpError where Redis does not answer."""
        found = await self._await_redis(self._redis.getrange(self._make_key(name), 0, LONGEST_ENTRY))
        return self._seal.unseal(name.encode(), found) if found else None

    def _seal_entry(self, name: str, entry: bytes) -> bytes:
        return self._seal.seal(name.encode(), entry, time.time() + KEPT_S)

    async def close(self) -> None:
        """See IdempotencyStore."""
        await self._redis.aclose()

    def _make_key(self, name: str) -> str:
        return f"{self._prefix}sluice:idempotency:{name}"

    async def _await_redis(self, step: Awaitable[Any]) -> Any:
        from redis.exceptions import RedisError  # noqa: PLC0415 - as above

        try:
            return await step
        except (RedisError, OSError):
            message = "the store of idempotency keys does not answer"
            raise HttpError(503, "unavailable", message).set_retry_after(1) from None


async def keep_newest(store: IdempotencyStore, name: str, entry: bytes) -> None:
    """Keep an entry, in place of one of this name."""
    if await store.add(name, entry) is not None:
        await store.put(name, entry)


def name_request(caller: str, key: str) -> str:
    """The name of a caller's idempotency key. Raises HttpError for a key that is none."""
    if not (1 <= len(key) <= LONGEST_KEY and key.isprintable()):
        message = f"an Idempotency-Key has 1 to {LONGEST_KEY} printable characters"
        raise HttpError(400, "invalid_idempotency_key", message)
    return compute_fingerprint(caller.encode(), key.encode())


def compute_fingerprint(*parts: bytes) -> str:
    """Compute the fingerprint of a request: the same for the same parts alone."""
    return sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()


@dataclass
class IdempotentRequests:
    """Answers requests that bear an idempotency key."""

    store: IdempotencyStore
    _under_way: dict[str, asyncio.Future[StoredAnswer]] = field(default_factory=dict)

    async def answer(
        self,
        name: str,
        prepare: Callable[[], RememberedRequest],
        decide: Callable[[RememberedRequest], Awaitable[StoredAnswer]],
    ) -> tuple[StoredAnswer, bool]:
        """The request's answer, and whether an earlier one was asked already.

        `prepare` raises HttpError for a request that is none: then nothing is remembered. `decide` publishes
        the request's bytes, and gives the first decision on them. Raises HttpError, also where the key came
        with another request before.
        """
        request = prepare()
        before = await self.store.add(name, request.serialize())
        if before is not None:
            known = RememberedRequest.parse(before)
            if known.fingerprint != request.fingerprint:
                message = "this Idempotency-Key came with another request before"
                raise HttpError(422, "idempotency_conflict", message)
            if known.answer is not None:
                return known.answer, True
            request = known
        under_way = self._under_way.get(name)
        if under_way is not None:
            return await asyncio.shield(under_way), True
        return await self._decide(name, request, decide), before is not None

    async def _decide(
        self,
        name: str,
        request: RememberedRequest,
        decide: Callable[[RememberedRequest], Awaitable[StoredAnswer]],
    ) -> StoredAnswer:
        deciding = asyncio.ensure_future(decide(request))
        self._under_way[name] = deciding
        try:
            answer = await deciding
        finally:
            del self._under_way[name]
        try:
            await self.store.put(name, replace(request, answer=answer).serialize())
        except HttpError:
            log.warning("an answer is not kept: the same request again is answered by the worker")
        return answer
