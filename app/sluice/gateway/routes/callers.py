"""Who makes a request: its API key, how often it asks, and for which agent and session."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from sluice.gateway.http.api_keys import ApiKeyFileError, ApiKeyStore, Caller
from sluice.gateway.http.edge import FACTS
from sluice.gateway.http.http_errors import HttpError, make_unauthorized
from sluice.gateway.http.rate_limits import OwnRate
from sluice.gateway.idempotency import name_request
from sluice.gateway.input_requests import RequestContext, encode_header

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from sluice.gateway.http.rate_limits import RateLimit
    from sluice.gateway.http.response_headers import ResponseFacts

MAX_KEYS_VERIFIED_AT_ONCE = 2
"""Each takes 19 MiB and some 20 ms of a core."""
STRANGERS = (5.0, 50)
"""Keys of one address that are verified in a second, and at once: those that count are verified once."""
PAUSE_RATIO, LONGEST_PAUSE_S, MOST_WAITING = 3.0, 0.5, 256


def read_facts(request: Request) -> ResponseFacts:
    """Return the facts from which the headers of the request's response are made."""
    facts: ResponseFacts = getattr(request.state, FACTS)
    return facts


class TenantTurns:
    """Lets a tenant's readings of many records go one after the other, each followed by a pause of
    `pause_ratio` times its length: together they take the gateway a bounded share of its time, and others'
    requests go between them."""

    def __init__(self, pause_ratio: float = PAUSE_RATIO, most_waiting: int = MOST_WAITING) -> None:
        self._pause_ratio = pause_ratio
        self._most_waiting = most_waiting
        self._free_at: dict[str, float] = {}
        self._waiting: Counter[str] = Counter()
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def take_turn(self, tenant: str) -> AsyncIterator[None]:
        """Read within. Raises HttpError: 429 where too many wait already."""
        if self._waiting[tenant] >= self._most_waiting:
            message = "too many requests of this tenant wait for their turn; come again later"
            raise HttpError(429, "too_many_requests", message).set_retry_after(1)
        lock = self._locks.setdefault(tenant, asyncio.Lock())
        self._waiting[tenant] += 1
        try:
            async with lock:
                began = time.monotonic()
                await asyncio.sleep(max(0.0, self._free_at.get(tenant, 0.0) - began))
                began = time.monotonic()
                try:
                    yield
                finally:
                    ended = time.monotonic()
                    self._free_at[tenant] = ended + min(LONGEST_PAUSE_S, self._pause_ratio * (ended - began))
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant], self._locks[tenant]


class Callers:
    """Lets requests in."""

    def __init__(self, keys: ApiKeyStore, rate: RateLimit) -> None:
        self._keys = keys
        self._rate = rate
        self._verifying = asyncio.Semaphore(MAX_KEYS_VERIFIED_AT_ONCE)
        self._strangers = OwnRate(*STRANGERS)
        self._turns = TenantTurns()

    def take_turn(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """A caller's turn to read many records. Raises HttpError inside: 429."""
        return self._turns.take_turn(caller.tenant)

    async def identify(self, request: Request) -> RequestContext:
        """Who asks, and for whom. Raises HttpError: 401 without a key that counts, 429 for one that asks too
        often."""
        caller, facts = await self._find_caller(request), read_facts(request)
        facts.caller = caller.name
        wait_s = await self._rate.take(caller.key_id)
        if wait_s is not None:
            message = "this API key has asked too often; come again later"
            raise HttpError(429, "too_many_requests", message).set_retry_after(max(1, round(wait_s + 0.5)))
        agent, session = (
            encode_header(_read_single_header(request, f"x-mnemom-{header}"))
            for header in ("agent", "session")
        )
        facts.agent, facts.session = agent, session
        key = _read_single_header(request, "idempotency-key")
        name = None if key is None else name_request(facts.caller, key)
        trace = request.headers.get("traceparent")
        return RequestContext(caller, facts.request_id, agent, session, name, trace)

    async def _limit_strangers(self, request: Request) -> None:
        """Raises HttpError: 429 where an address has shown too many keys that were not verified before."""
        address = "" if request.client is None else request.client.host
        wait_s = await self._strangers.take(address)
        if wait_s is not None:
            message = "this address has shown too many unknown API keys; come again later"
            raise HttpError(429, "too_many_requests", message).set_retry_after(max(1, round(wait_s + 0.5)))

    async def _find_caller(self, request: Request) -> Caller:
        keys = request.headers.getlist("x-mnemom-api-key")
        if len(keys) != 1:
            raise make_unauthorized("give one API key in X-Mnemom-Api-Key")
        try:
            caller = self._keys.find_verified(keys[0])
            if caller is None:
                await self._limit_strangers(request)
                async with self._verifying:
                    caller = await asyncio.to_thread(self._keys.verify, keys[0])
        except ApiKeyFileError as error:
            raise HttpError(503, "unavailable", str(error)) from None
        if caller is None:
            raise make_unauthorized("this API key does not count")
        return caller


def _read_single_header(request: Request, name: str) -> str | None:
    values: list[str] = request.headers.getlist(name)
    if len(values) > 1:
        raise HttpError(400, "ambiguous_header", f"the header {name} is given more than once")
    return values[0] if values else None
