"""Log-ins of the pages in a Redis, for all gateways: a browser may come to any of them.

Whoever reads the Redis gets no session from it (it has digests of the tokens), and whoever writes to it makes
none: entries are sealed. What is there and is none of ours is as if it were not there; it is never an error.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sluice.gateway.http.api_keys import ApiKeyFileError
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages.log_ins import WITHIN_S, Session, derive_id
from sluice.secrets.redis_seal import Seal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sluice.gateway.pages.accounts import PersonAccount
    from sluice.gateway.pages.log_ins import Said

log = logging.getLogger(__name__)
ANSWER_S = 2.0
FOR_EVER = math.inf
"""Of an entry's seal: a session's times are within it, and are checked with every request."""
LONGEST_ENTRY = 4096
MOST_ENTRIES, MOST_SAID = 20_000, 16
"""More than gateways keep: whatever goes beyond is not read."""
FIND = """
if redis.call('HSTRLEN', KEYS[1], ARGV[1]) > tonumber(ARGV[2]) then return false end
return redis.call('HGET', KEYS[1], ARGV[1])
"""
EVERY = """
local found = {}
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then return found end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if redis.call('HSTRLEN', KEYS[1], name) <= tonumber(ARGV[2]) then
    found[#found + 1] = name
    found[#found + 1] = redis.call('HGET', KEYS[1], name)
  end
end
return found
"""
SAID = """
local found = {}
for _, one in ipairs(redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)) do
  if #one <= tonumber(ARGV[2]) then found[#found + 1] = one end
end
return found
"""
SAVE = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
"""
"""A log-in that has ended meanwhile stays ended."""
ATTEMPT = """
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local within, member, wait = tonumber(ARGV[1]), ARGV[2], 0
for place, key in ipairs(KEYS) do
  local most = tonumber(ARGV[2 + place])
  redis.call('ZREMRANGEBYSCORE', key, now + 1, '+inf')
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - within)
  local count = redis.call('ZCARD', key)
  if count >= most then
    local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
    wait = math.max(wait, tonumber(last[2]) + math.min(within, 2 ^ (count - most)) - now)
  end
end
if wait == 0 then
  for _, key in ipairs(KEYS) do
    redis.call('ZADD', key, now, member)
    redis.call('PEXPIRE', key, math.ceil(within * 1000))
  end
end
return tostring(wait)
"""


class SharedLogIns:
    """The log-ins of all gateways of an installation that have the same Redis, people and secret."""

    def __init__(
        self,
        url: str,
        prefix: str,
        keys: Callable[[], tuple[bytes, ...]],
        account_of: Callable[[str], PersonAccount | None],
        kept_s: float,
    ) -> None:
        """`prefix`: of every key, so that installations can share a Redis; `keys`: with which entries are
        sealed; `account_of`: the account of this name in force; `kept_s`: the longest that a session lasts.
        Raises ValueError for no URL."""
        from redis.asyncio import Redis  # noqa: PLC0415 - only where it is set
        from redis.asyncio.retry import Retry  # noqa: PLC0415 - as above
        from redis.backoff import NoBackoff  # noqa: PLC0415 - as above

        self._redis: Any = Redis.from_url(
            url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0)
        )
        scripts = (FIND, EVERY, SAID, SAVE, ATTEMPT)
        self._find, self._every, self._read_notices, self._save, self._attempt = map(
            self._redis.register_script, scripts
        )
        self._prefix = f"{prefix}sluice:log_ins"
        self._seal, self._saying_seal = Seal(keys, "log-in"), Seal(keys, "said on a page")
        self._failed_seal = Seal(keys, "failed log-ins")
        self._account_of = account_of
        self._kept_s = kept_s

    async def find(self, token: str) -> Session | None:
        """See LogIns."""
        name = derive_id(token)
        entry = await self._await_redis(
            lambda: self._find(keys=[self._prefix], args=[name, LONGEST_ENTRY]), self._prefix
        )
        session = None if entry is None else self._parse(name, entry)
        if session is not None:
            session.token, key = token, self._name_notices(name)
            texts = await self._await_redis(
                lambda: self._read_notices(keys=[key], args=[MOST_SAID, LONGEST_ENTRY]), key
            )
            read = [self._saying_seal.unseal(name.encode(), text) for text in texts]
            session.notices = [tuple(json.loads(notice)) for notice in read if notice is not None]
        return session

    async def list_all(self) -> list[Session]:
        """See LogIns. What is sealed by others, or of an account that has changed, is none."""
        args = [MOST_ENTRIES, LONGEST_ENTRY]
        flat = await self._await_redis(lambda: self._every(keys=[self._prefix], args=args), self._prefix)
        entries = zip(flat[::2], flat[1::2], strict=True)
        sessions = [self._parse(name.decode("latin-1"), entry) for name, entry in entries]
        return sorted(
            (session for session in sessions if session is not None), key=lambda session: session.began_s
        )

    async def add(self, session: Session) -> None:
        """See LogIns."""
        entry = self._serialize(session)
        await self._await_redis(lambda: self._redis.hset(self._prefix, session.id, entry), self._prefix)
        await self._await_redis(lambda: self._redis.expire(self._prefix, round(self._kept_s) + 1))

    async def save(self, session: Session) -> None:
        """See LogIns."""
        args: list[str | bytes] = [session.id, self._serialize(session)]
        await self._await_redis(lambda: self._save(keys=[self._prefix], args=args), self._prefix)
        key = self._name_notices(session.id)
        for notice in session.shown:
            entry = self._seal_notice(session, notice)
            await self._await_redis(partial(self._redis.lrem, key, 1, entry), key)

    async def add_notice(self, session: Session, notice: Said) -> None:
        """See LogIns. A list of its own: requests of one browser that run at once do not undo it."""
        key = self._name_notices(session.id)
        entry = self._seal_notice(session, notice)
        await self._await_redis(lambda: self._redis.rpush(key, entry), key)
        await self._await_redis(lambda: self._redis.expire(key, round(self._kept_s) + 1))

    async def forget(self, session: Session) -> None:
        """See LogIns."""
        await self._await_redis(lambda: self._redis.hdel(self._prefix, session.id), self._prefix)
        await self._await_redis(lambda: self._redis.delete(self._name_notices(session.id)))

    async def attempt(self, limits: Sequence[tuple[str, int]]) -> float | str:
        """See LogIns."""
        called = secrets.token_hex(8)
        args: list[float | str] = [WITHIN_S, called, *(most for _, most in limits)]
        keys = self._hash_names(limits)
        return float(await self._await_redis(lambda: self._attempt(keys=keys, args=args), *keys)) or called

    async def take_back(self, limits: Sequence[tuple[str, int]], attempt: str) -> None:
        """See LogIns."""
        for name in self._hash_names(limits):
            await self._await_redis(partial(self._redis.zrem, name, attempt), name)

    async def close(self) -> None:
        """See LogIns."""
        await self._redis.aclose()

    def _hash_names(self, limits: Sequence[tuple[str, int]]) -> list[str]:
        """A name that somebody typed may be a password."""
        return [f"{self._prefix}:failed:{self._failed_seal.digest_name(name.encode())}" for name, _ in limits]

    def _serialize(self, session: Session) -> bytes:
        account = session.account
        fields = [account.name, _digest_account(account), session.csrf]
        text = json.dumps([*fields, session.began_s, session.seen_s, session.by_sso]).encode()
        return self._seal.seal(session.id.encode(), text, FOR_EVER)

    def _name_notices(self, name: str) -> str:
        return f"{self._prefix}:said:{name}"

    def _seal_notice(self, session: Session, notice: Said) -> bytes:
        text = json.dumps(notice).encode()
        return self._saying_seal.seal(session.id.encode(), text, FOR_EVER)

    def _parse(self, name: str, entry: bytes) -> Session | None:
        text = self._seal.unseal(name.encode(), entry)
        if text is None:
            return None
        of, then, csrf, began_s, seen_s, by_sso = json.loads(text)
        try:
            account = self._account_of(of)
        except ApiKeyFileError as error:
            raise HttpError(503, "unavailable", str(error)) from None
        if account is None or _digest_account(account) != then:
            return None
        return Session(name, account, csrf, began_s, seen_s, by_sso)

    async def _await_redis(self, step: Callable[[], Awaitable[Any]], *keys: str) -> Any:
        """Return the answer of Redis. Keys that have another type were not made by us, and are deleted."""
        from redis.exceptions import RedisError, ResponseError  # noqa: PLC0415 - as above

        try:
            try:
                return await step()
            except ResponseError as error:
                if "WRONGTYPE" not in str(error):
                    raise
                log.warning("what is in the Redis under %s is not of this installation", ", ".join(keys))
                await self._redis.delete(*keys)
                return await step()
        except (RedisError, OSError):
            raise HttpError(503, "unavailable", "the store of log-ins does not answer").set_retry_after(
                1
            ) from None


def _digest_account(account: PersonAccount) -> str:
    return sha256(account.model_dump_json().encode()).hexdigest()
