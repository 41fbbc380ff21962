"""Who makes a request: its API key, how often it asks, and for which agent and session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sluice.gateway.http.api_keys import ApiKeyFileError, ApiKeyStore, Caller
from sluice.gateway.http.edge import FACTS
from sluice.gateway.http.http_errors import HttpError, unauthorized
from sluice.gateway.idempotency import request_name
from sluice.gateway.input_requests import RequestContext, header_text

if TYPE_CHECKING:
    from starlette.requests import Request

    from sluice.gateway.http.rate_limits import RateLimit
    from sluice.gateway.http.response_headers import ResponseFacts

MAX_KEYS_VERIFIED_AT_ONCE = 2
"""Each takes 19 MiB and some 20 ms of a core."""


def facts_of(request: Request) -> ResponseFacts:
    """What the headers of the request's response will say."""
    facts: ResponseFacts = getattr(request.state, FACTS)
    return facts


class Callers:
    """Lets requests in."""

    def __init__(self, keys: ApiKeyStore, rate: RateLimit) -> None:
        self._keys = keys
        self._rate = rate
        self._verifying = asyncio.Semaphore(MAX_KEYS_VERIFIED_AT_ONCE)

    async def context(self, request: Request) -> RequestContext:
        """Who asks, and for whom. Raises HttpError: 401 without a key that counts, 429 for one that asks too
        often."""
        caller, facts = await self._caller(request), facts_of(request)
        facts.caller = f"{caller.tenant}/{caller.key_id}"
        wait_s = await self._rate.take(caller.key_id)
        if wait_s is not None:
            told = "this API key has asked too often; come again later"
            raise HttpError(429, "too_many_requests", told).after(max(1, round(wait_s + 0.5)))
        agent, session = (header_text(_single(request, f"x-mnemom-{one}")) for one in ("agent", "session"))
        facts.agent, facts.session = agent, session
        key = _single(request, "idempotency-key")
        name = None if key is None else request_name(facts.caller, key)
        trace = request.headers.get("traceparent")
        return RequestContext(caller, facts.request_id, agent, session, name, trace)

    async def _caller(self, request: Request) -> Caller:
        given = request.headers.getlist("x-mnemom-api-key")
        if len(given) != 1:
            raise unauthorized("give one API key in X-Mnemom-Api-Key")
        try:
            caller = self._keys.known(given[0])
            if caller is None:
                async with self._verifying:
                    caller = await asyncio.to_thread(self._keys.verify, given[0])
        except ApiKeyFileError as error:
            raise HttpError(503, "unavailable", str(error)) from None
        if caller is None:
            raise unauthorized("this API key does not count")
        return caller


def _single(request: Request, name: str) -> str | None:
    given: list[str] = request.headers.getlist(name)
    if len(given) > 1:
        raise HttpError(400, "ambiguous_header", f"the header {name} is given more than once")
    return given[0] if given else None
