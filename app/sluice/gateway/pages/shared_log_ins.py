"""Log-ins of the pages in a Redis, for all gateways: a browser may come to any of them.

Whoever reads the Redis gets no session from it (it has digests of the tokens), and whoever writes to it makes
none: entries are sealed with a secret of the gateways.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sluice.gateway.http.api_keys import ApiKeyFileError
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages.log_ins import WITHIN_S, Session, id_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sluice.gateway.pages.accounts import Account
    from sluice.gateway.pages.log_ins import Said

log = logging.getLogger(__name__)
ANSWER_S = 2.0
SEAL = 32
"""Bytes in front of an entry."""
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
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - within)
  if redis.call('ZCARD', key) >= most then
    local first = redis.call('ZRANGE', key, -most, -most, 'WITHSCORES')
    wait = math.max(wait, tonumber(first[2]) + within - now)
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
    """For all gateways of an installation that have the same Redis, people and secret."""

    def __init__(
        self, url: str, prefix: str, secret: bytes, account_of: Callable[[str], Account | None], kept_s: float
    ) -> None:
        """`prefix`: of every key, so that installations can share a Redis; `account_of`: the account of this
        name in force; `kept_s`: the longest that a session lasts. Raises ValueError for no URL."""
        from redis.asyncio import Redis  # noqa: PLC0415 - only where it is set
        from redis.asyncio.retry import Retry  # noqa: PLC0415 - as above
        from redis.backoff import NoBackoff  # noqa: PLC0415 - as above

        self._redis: Any = Redis.from_url(
            url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0)
        )
        self._save = self._redis.register_script(SAVE)
        self._attempt = self._redis.register_script(ATTEMPT)
        self._prefix = f"{prefix}sluice:log_ins"
        self._secret = sha256(b"sluice log-ins:" + secret).digest()
        self._account_of = account_of
        self._kept_s = kept_s

    async def find(self, token: str) -> Session | None:
        """See LogIns."""
        name = id_of(token)
        entry = await self._told(self._redis.hget(self._prefix, name))
        found = None if entry is None else self._read(name, entry)
        if found is not None:
            found.token = token
            texts = await self._told(self._redis.lrange(self._saying(name), 0, -1))
            read = [self._unsealed(name, one) for one in texts]
            found.said = [(one[0], one[1]) for one in read if one is not None]
        return found

    async def every(self) -> list[Session]:
        """See LogIns. What is sealed by others, or of an account that has changed, is none."""
        entries = await self._told(self._redis.hgetall(self._prefix))
        found = [self._read(name.decode("latin-1"), entry) for name, entry in entries.items()]
        return sorted((one for one in found if one is not None), key=lambda one: one.began_s)

    async def add(self, session: Session) -> None:
        """See LogIns."""
        await self._told(self._redis.hset(self._prefix, session.id, self._written(session)))
        await self._told(self._redis.expire(self._prefix, round(self._kept_s) + 1))

    async def save(self, session: Session) -> None:
        """See LogIns."""
        await self._told(self._save(keys=[self._prefix], args=[session.id, self._written(session)]))
        for told in session.shown:
            await self._told(self._redis.lrem(self._saying(session.id), 1, self._sealed(session.id, told)))

    async def say(self, session: Session, told: Said) -> None:
        """See LogIns. A list of its own: requests of one browser that run at once do not undo it."""
        key = self._saying(session.id)
        await self._told(self._redis.rpush(key, self._sealed(session.id, told)))
        await self._told(self._redis.expire(key, round(self._kept_s) + 1))

    async def end(self, session: Session) -> None:
        """See LogIns."""
        await self._told(self._redis.hdel(self._prefix, session.id))
        await self._told(self._redis.delete(self._saying(session.id)))

    async def attempt(self, limits: Sequence[tuple[str, int]]) -> float | str:
        """See LogIns."""
        called = secrets.token_hex(8)
        args: list[float | str] = [WITHIN_S, called, *(most for _, most in limits)]
        return float(await self._told(self._attempt(keys=self._names(limits), args=args))) or called

    async def take_back(self, limits: Sequence[tuple[str, int]], attempt: str) -> None:
        """See LogIns."""
        for name in self._names(limits):
            await self._told(self._redis.zrem(name, attempt))

    async def close(self) -> None:
        """See LogIns."""
        await self._redis.aclose()

    def _names(self, limits: Sequence[tuple[str, int]]) -> list[str]:
        """A name that somebody typed may be a password."""
        return [f"{self._prefix}:failed:{self._digest(name.encode()).hex()}" for name, _ in limits]

    def _digest(self, of: bytes) -> bytes:
        return hmac.digest(self._secret, of, "sha256")

    def _written(self, session: Session) -> bytes:
        account = session.account
        told = [account.name, self._digest(account.model_dump_json().encode()).hex(), session.csrf]
        return self._sealed(session.id, [*told, session.began_s, session.seen_s, session.by_sso])

    def _saying(self, name: str) -> str:
        return f"{self._prefix}:said:{name}"

    def _sealed(self, name: str, value: object) -> bytes:
        text = json.dumps(value).encode()
        return self._digest(name.encode() + text) + text

    def _unsealed(self, name: str, entry: bytes) -> Any:
        """The value that a gateway of this installation sealed under the name, else None."""
        seal, text = entry[:SEAL], entry[SEAL:]
        if not hmac.compare_digest(seal, self._digest(name.encode() + text)):
            log.warning("an entry of a log-in in the Redis is not sealed by a gateway of this installation")
            return None
        return json.loads(text)

    def _read(self, name: str, entry: bytes) -> Session | None:
        value = self._unsealed(name, entry)
        if value is None:
            return None
        of, then, csrf, began_s, seen_s, by_sso = value
        try:
            account = self._account_of(of)
        except ApiKeyFileError as error:
            raise HttpError(503, "unavailable", str(error)) from None
        if account is None or self._digest(account.model_dump_json().encode()).hex() != then:
            return None
        return Session(name, account, csrf, began_s, seen_s, by_sso)

    async def _told(self, step: Awaitable[Any]) -> Any:
        from redis.exceptions import RedisError  # noqa: PLC0415 - as above

        try:
            return await step
        except (RedisError, OSError):
            raise HttpError(503, "unavailable", "the store of log-ins does not answer").after(1) from None
