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
MOST_BYTES = 256 * 1024 * 1024
"""That are kept for one API key, where nothing else is said."""
OWN_BYTES = 128
"""What an entry is counted for beside its text."""
WRITE = """
local clock = redis.call('TIME')
local kept, longest = tonumber(ARGV[2]), tonumber(ARGV[3])
local hour = math.floor(clock[1] / 3600)
local counts = redis.call('TYPE', KEYS[2]).ok
if counts ~= 'none' and (counts ~= 'hash' or redis.call('HLEN', KEYS[2]) > 64) then
  redis.call('DEL', KEYS[2])
end
local function read()
  if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('STRLEN', KEYS[1]) <= longest then
    return redis.call('GET', KEYS[1])
  end
end
local function sum()
  local all, found = 0, redis.call('HGETALL', KEYS[2])
  for at = 1, #found, 2 do
    local since = tonumber(found[at])
    if since and since >= hour - kept / 3600 and since <= hour then
      all = all + (tonumber(found[at + 1]) or 0)
    else
      redis.call('HDEL', KEYS[2], found[at])
    end
  end
  return all
end
local function write(before)
  if before then
    local since = clock[1] - kept + redis.call('TTL', KEYS[1])
    redis.call('HINCRBY', KEYS[2], math.floor(since / 3600), -(#before + ARGV[4]))
  end
  redis.call('SET', KEYS[1], ARGV[1], 'EX', kept)
  redis.call('HINCRBY', KEYS[2], hour, #ARGV[1] + ARGV[4])
  redis.call('EXPIRE', KEYS[2], kept + 3600)
end
"""
"""Keeps ARGV[1] under KEYS[1] for ARGV[2] seconds, and counts its bytes, and ARGV[4] more, under KEYS[2] by
the hour since which it is kept: what is kept no longer is counted no longer. What is of another type, or
longer than ARGV[3], none of ours wrote."""
ADD = (
    WRITE
    + """
local before = read()
if before and redis.sha1hex(before) ~= ARGV[5] then return {before, 'found'} end
if sum() + #ARGV[1] + ARGV[4] > tonumber(ARGV[6]) then return {'', 'full'} end
write(nil)
return {'', 'added'}
"""
)
"""Unless there is one, or what is there is no entry by its SHA-1, ARGV[5]; and none above ARGV[6] bytes."""
REPLACE = (
    WRITE
    + """
local before = read()
if ARGV[5] ~= '' and (not before or redis.sha1hex(before) ~= ARGV[5]) then return 0 end
write(before)
return 1
"""
)
"""In place of the entry whose SHA-1 is ARGV[5]; empty: of any, or none."""
TABLES = f"""
CREATE TABLE IF NOT EXISTS kept (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON answers BEGIN
  INSERT INTO kept VALUES (new.owner, length(new.entry) + {OWN_BYTES})
  ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON answers BEGIN
  UPDATE kept SET bytes = bytes - length(old.entry) - {OWN_BYTES} WHERE owner = old.owner;
END;
CREATE TRIGGER IF NOT EXISTS replaced AFTER UPDATE ON answers BEGIN
  UPDATE kept SET bytes = bytes - length(old.entry) + length(new.entry) WHERE owner = old.owner;
END;
"""  # noqa: S608 - a number of ours
"""What each owner's entries take, OWN_BYTES included."""
SWEEP_EVERY = 1000
"""Requests between two deletions of what is older than KEPT_S."""
SWEEP_FULL_S = 60.0
"""Between two such deletions because an owner keeps too much."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What was answered: the body byte for byte, and `facts`: fields of ResponseFacts for its headers."""

    status: int
    body: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RememberedRequest:
    """A request under an idempotency key. `value`: the input's JSON text, "" once it is answered; `answer`
    None: not known yet."""

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
    """Keeps entries by name for KEPT_S from when they were written. `owner`: for whose API key."""

    async def add(self, name: str, entry: bytes, owner: str) -> bytes | None:
        """Keep an entry if there is none of this name; the one that was there before, or None. Raises
        HttpError where the owner's entries take too much."""

    async def put(self, name: str, entry: bytes, owner: str) -> None:
        """Keep an entry, in place of one of this name."""

    async def replace(self, name: str, before: bytes, entry: bytes, owner: str) -> bool:
        """Keep an entry in place of exactly this one; False: it is not there, and nothing is changed. Of
        several at once one alone succeeds."""

    async def get(self, name: str) -> bytes | None:
        """The entry of this name; None: there is none."""

    async def close(self) -> None:
        """Give up files and connections."""


class SqliteAnswers:
    """The store of one gateway: a file that a killed gateway leaves to the next one, or memory."""

    def __init__(
        self, path: Path | None, now_s: Callable[[], float] = time.time, most_bytes: int = MOST_BYTES
    ) -> None:
        """`most_bytes`: of one owner. Raises sqlite3.Error where the file cannot be opened."""
        self._now_s = now_s
        self._most_bytes = most_bytes
        self._rows = sqlite3.connect(":memory:" if path is None else path, isolation_level=None)
        if path is not None:
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("PRAGMA synchronous=NORMAL")
        self._rows.execute(
            "CREATE TABLE IF NOT EXISTS answers (name TEXT PRIMARY KEY, entry BLOB NOT NULL, "
            "since_s REAL NOT NULL, owner TEXT NOT NULL DEFAULT '') WITHOUT ROWID"
        )
        if "owner" not in [column[1] for column in self._rows.execute("PRAGMA table_info(answers)")]:
            self._rows.execute("ALTER TABLE answers ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
        self._rows.executescript(TABLES)
        self._since_swept = SWEEP_EVERY
        self._swept_s = 0.0

    async def add(self, name: str, entry: bytes, owner: str) -> bytes | None:
        """See IdempotencyStore."""
        now = self._now_s()
        self._since_swept += 1
        if self._since_swept >= SWEEP_EVERY:
            self._sweep(now)
        self._rows.execute("DELETE FROM answers WHERE name = ? AND since_s < ?", (name, now - KEPT_S))
        row = self._rows.execute("SELECT entry FROM answers WHERE name = ?", (name,)).fetchone()
        if row is not None:
            return bytes(row[0])
        most = self._most_bytes - len(entry) - OWN_BYTES
        if self._count_kept(owner) > most and now - self._swept_s >= SWEEP_FULL_S:
            self._sweep(now)
        if self._count_kept(owner) > most:
            raise make_full(self._most_bytes)
        self._rows.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", (name, entry, now, owner))
        return None

    async def put(self, name: str, entry: bytes, owner: str) -> None:
        """See IdempotencyStore."""
        self._rows.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET entry = excluded.entry, since_s = excluded.since_s",
            (name, entry, self._now_s(), owner),
        )

    async def replace(self, name: str, before: bytes, entry: bytes, owner: str) -> bool:  # noqa: ARG002
        """See IdempotencyStore."""
        now = self._now_s()
        replaced = self._rows.execute(
            "UPDATE answers SET entry = ?, since_s = ? WHERE name = ? AND entry = ? AND since_s >= ?",
            (entry, now, name, before, now - KEPT_S),
        )
        return replaced.rowcount == 1

    async def get(self, name: str) -> bytes | None:
        """See IdempotencyStore."""
        since = self._now_s() - KEPT_S
        row = self._rows.execute(
            "SELECT entry FROM answers WHERE name = ? AND since_s >= ?", (name, since)
        ).fetchone()
        return None if row is None else bytes(row[0])

    async def close(self) -> None:
        """See IdempotencyStore."""
        self._rows.close()

    def _count_kept(self, owner: str) -> int:
        row = self._rows.execute("SELECT bytes FROM kept WHERE owner = ?", (owner,)).fetchone()
        return 0 if row is None else int(row[0])

    def _sweep(self, now: float) -> None:
        self._since_swept, self._swept_s = 0, now
        self._rows.execute("DELETE FROM answers WHERE since_s < ?", (now - KEPT_S,))


class RedisAnswers:
    """The store of any number of gateways. Redis being away is an error: without it nobody knows what was
    answered.

    What is there and was not sealed by one of them, for this very name, is replaced as if it were not there.
    """

    def __init__(self, url: str, prefix: str, seal: Seal, most_bytes: int = MOST_BYTES) -> None:
        """`prefix`: of every key, so that installations can share a Redis; `most_bytes`: of one owner. Raises
        ValueError for no URL."""
        from redis.asyncio import Redis  # noqa: PLC0415 - only where it is set

        self._redis: Any = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
        self._add = self._redis.register_script(ADD)
        self._replace = self._redis.register_script(REPLACE)
        self._prefix = prefix
        self._seal = seal
        self._most_bytes = most_bytes

    async def add(self, name: str, entry: bytes, owner: str) -> bytes | None:
        """See IdempotencyStore. Raises HttpError where Redis does not answer."""
        sealed, foreign = self._seal_entry(name, entry), ""
        for _ in range(MOST_REPLACED):
            stored, how = await self._run(self._add, name, owner, sealed, foreign, self._most_bytes)
            if how == b"added":
                return None
            if how == b"full":
                raise make_full(self._most_bytes)
            previous = self._seal.unseal(name.encode(), stored)
            if previous is not None:
                return previous
            foreign = _name_as_redis(stored)
        log.warning("somebody writes to the Redis all the time: a request is decided without its memory")
        return None

    async def put(self, name: str, entry: bytes, owner: str) -> None:
        """See IdempotencyStore. Raises HttpError where Redis does not answer."""
        await self._run(self._replace, name, owner, self._seal_entry(name, entry), "")

    async def replace(self, name: str, before: bytes, entry: bytes, owner: str) -> bool:
        """See IdempotencyStore. Raises HttpError where Redis does not answer."""
        stored = await self._fetch(name)
        if not stored or self._seal.unseal(name.encode(), stored) != before:
            return False
        sealed = self._seal_entry(name, entry)
        return bool(await self._run(self._replace, name, owner, sealed, _name_as_redis(stored)))

    async def get(self, name: str) -> bytes | None:
        """See IdempotencyStore. Raises HttpError where Redis does not answer."""
        stored = await self._fetch(name)
        return self._seal.unseal(name.encode(), stored) if stored else None

    async def close(self) -> None:
        """See IdempotencyStore."""
        await self._redis.aclose()

    async def _fetch(self, name: str) -> bytes:
        stored: bytes = await self._await_redis(self._redis.getrange(self._make_key(name), 0, LONGEST_ENTRY))
        return stored

    def _seal_entry(self, name: str, entry: bytes) -> bytes:
        return self._seal.seal(name.encode(), entry, time.time() + KEPT_S)

    def _make_key(self, name: str) -> str:
        return f"{self._prefix}sluice:idempotency:{name}"

    async def _run(self, script: Any, name: str, owner: str, entry: bytes, *more: str | int) -> Any:
        keys = [self._make_key(name), f"{self._prefix}sluice:idempotency_bytes:{owner}"]
        return await self._await_redis(
            script(keys=keys, args=[entry, KEPT_S, LONGEST_ENTRY, OWN_BYTES, *more])
        )

    async def _await_redis(self, step: Awaitable[Any]) -> Any:
        from redis.exceptions import RedisError  # noqa: PLC0415 - as above

        try:
            return await step
        except (RedisError, OSError):
            message = "the store of idempotency keys does not answer"
            raise HttpError(503, "unavailable", message).set_retry_after(1) from None


def _name_as_redis(entry: bytes) -> str:
    return sha1(entry).hexdigest()  # noqa: S324 - as Redis names it


def make_full(most_bytes: int) -> HttpError:
    """An API key keeps too much."""
    message = (
        f"what is kept for 24 hours for this API key takes {most_bytes / 2**20:g} MiB, and may not take more "
        "(gateway.idempotency_mb)"
    )
    return HttpError(429, "too_much_kept", message).set_retry_after(60)


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
        owner: str,
        prepare: Callable[[], RememberedRequest],
        decide: Callable[[RememberedRequest], Awaitable[StoredAnswer]],
    ) -> tuple[StoredAnswer, bool]:
        """The request's answer, and whether an earlier one was asked already.

        `owner`: for whose API key it is kept. `prepare` raises HttpError for a request that is none: then
        nothing is remembered. `decide` publishes the request's bytes, and gives the first decision on them.
        Raises HttpError, also where the key came with another request before.
        """
        request = prepare()
        before = await self.store.add(name, request.serialize(), owner)
        if before is not None:
            remembered = RememberedRequest.parse(before)
            if remembered.fingerprint != request.fingerprint:
                message = "this Idempotency-Key came with another request before"
                raise HttpError(422, "idempotency_conflict", message)
            if remembered.answer is not None:
                return remembered.answer, True
            request = remembered
        under_way = self._under_way.get(name)
        if under_way is not None:
            return await asyncio.shield(under_way), True
        return await self._decide(name, owner, request, decide), before is not None

    async def _decide(
        self,
        name: str,
        owner: str,
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
            await self.store.put(name, replace(request, value="", answer=answer).serialize(), owner)
        except HttpError:
            log.warning("an answer is not kept: the same request again is answered by the worker")
        return answer
