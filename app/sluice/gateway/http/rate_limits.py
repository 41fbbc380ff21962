"""How often a key may ask: so many requests a second, and as many at once as come in a burst.

Both limits are the same one (GCRA: each request moves the moment at which the key's burst is whole again, and
may move it no further ahead than a burst lasts). One gateway keeps these moments in its memory; several keep
them in a Redis, by whose clock they count.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)
ANSWER_S = 1.0
"""How long a request waits for the Redis."""
MOST_KEPT = 10_000
"""Keys of one gateway before those whose burst is whole are forgotten."""
ASK_AGAIN_S = 5.0
"""After a Redis did not answer: so long each gateway limits alone, and no request waits for it."""
TAKE = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local kept = redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('STRLEN', KEYS[1]) < 40
local at = kept and tonumber(redis.call('GET', KEYS[1])) or 0
if not (at <= now + burst * interval + 1) then at = 0 end
local whole = math.max(now, at) + interval
local wait = whole - now - burst * interval
if wait > 0.000001 then return string.format('%.6f', wait) end
redis.call('SET', KEYS[1], string.format('%.6f', whole), 'PX', math.ceil((whole - now) * 1000) + 1)
return '0'
"""
"""Take one request of KEYS[1]: "0", or the seconds to wait. It is kept until its burst is whole again.
What is no number, or further ahead than a burst lasts, no gateway wrote."""


class RateLimit(Protocol):
    """Limits the requests of each key."""

    async def take(self, key_id: str) -> float | None:
        """Take one request now. Seconds to wait if there is none left."""

    async def close(self) -> None:
        """Give up connections."""


class OwnRate:
    """The rate limit of one gateway."""

    def __init__(self, per_second: float, burst: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self.interval_s, self.burst = 1 / per_second, burst
        self._now_s = now_s
        self._whole_at: dict[str, float] = {}

    async def take(self, key_id: str) -> float | None:
        """See RateLimit."""
        now = self._now_s()
        whole = max(now, self._whole_at.get(key_id, now)) + self.interval_s
        wait = whole - now - self.burst * self.interval_s
        if wait > 1e-6:  # noqa: PLR2004 - what sums of floating-point numbers are off by
            return wait
        if key_id not in self._whole_at and len(self._whole_at) >= MOST_KEPT:
            self._whole_at = {key: at for key, at in self._whole_at.items() if at > now}
        self._whole_at[key_id] = whole
        return None

    async def close(self) -> None:
        """See RateLimit."""


class SharedRate:
    """The rate limit of all gateways of an installation. While the Redis does not answer, each of them limits
    alone."""

    MOST_CONNECTIONS = 16

    def __init__(self, url: str, prefix: str, alone: OwnRate, answer_s: float = ANSWER_S) -> None:
        """`prefix`: of every key, so that installations can share a Redis. Raises ValueError for no URL."""
        from redis.asyncio import Redis  # noqa: PLC0415 - only where it is set
        from redis.asyncio.retry import Retry  # noqa: PLC0415 - as above
        from redis.backoff import NoBackoff  # noqa: PLC0415 - as above

        self._redis = Redis.from_url(
            url, socket_timeout=answer_s, socket_connect_timeout=answer_s, retry=Retry(NoBackoff(), 0)
        )
        self._take: Any = self._redis.register_script(TAKE)
        self._prefix = prefix
        self._alone = alone
        self._few = asyncio.Semaphore(self.MOST_CONNECTIONS)
        self._ask_at = 0.0

    async def take(self, key_id: str) -> float | None:
        """See RateLimit."""
        from redis.exceptions import RedisError  # noqa: PLC0415 - as above

        name = f"{self._prefix}sluice:rate:{key_id}"
        async with self._few:
            if time.monotonic() < self._ask_at:
                return await self._alone.take(key_id)
            try:
                wait = await self._take(keys=[name], args=[self._alone.interval_s, self._alone.burst])
            except (RedisError, OSError) as error:
                log.warning("the Redis does not answer (%s): this gateway limits alone for now", error)
                self._ask_at = time.monotonic() + ASK_AGAIN_S
                return await self._alone.take(key_id)
        return float(wait) or None

    async def close(self) -> None:
        """See RateLimit."""
        await self._redis.aclose()
