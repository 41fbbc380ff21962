"""References of the web, resolved: the SHA-256 of what lies there, or why it could not be had.

Servers are not believed: whatever one does ends within the rules' time and bytes, as a value. No redirect is
followed without the same checks, no proxy, cookie or credential is used, nothing is unpacked.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from calendar import timegm
from contextlib import aclosing
from email.utils import parsedate
from functools import partial
from typing import TYPE_CHECKING, Any

import httpcore2

from sluice.adapters.checked_network import CheckedNetwork
from sluice.adapters.http_target import Unresolvable, follow_redirect, read_target
from sluice.ports import Known, ProvenanceAnswer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Mapping

    from sluice.adapters.checked_network import Lookup, TenantLookup
    from sluice.adapters.http_target import HttpRules, HttpTarget


_STRONG_TAG = re.compile(r'"[!#-~]{0,510}"')
_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
"""IMF-fixdate, section 5.6.7; the obsolete forms are not said again."""
_SETTLED_S = 60
"""What changed at least this long before the answer was made cannot change again within the same second
(section 8.8.2.2, in its older and stricter reading)."""


def build_conditions(previous: Known | None) -> dict[str, str]:
    """The fields of a request that may be answered with 304.

    A weak entity tag stands for a like meaning, and a date for whole seconds: neither would do for a hash.
    """
    if previous is None:
        return {}
    if previous.etag is not None:
        return {"if-none-match": previous.etag}
    return {} if previous.last_modified is None else {"if-modified-since": previous.last_modified}


def read_validators(fields: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Entity tag and date of a response, as far as another request can be conditioned on them."""
    etag = fields.get("etag", "")
    if _STRONG_TAG.fullmatch(etag):
        return etag, None
    modified = fields.get("last-modified", "")
    changed, made = _parse_date(modified), _parse_date(fields.get("date", ""))
    settled = changed is not None and made is not None and made - changed >= _SETTLED_S
    return None, modified if settled else None


def _parse_date(date: str) -> int | None:
    if _DATE.fullmatch(date) is None:
        return None
    parsed = parsedate(date)
    return None if parsed is None else timegm(parsed)


_HEAD_BYTES = 131_072
"""Of a response's head, with whatever informational responses go before it: h11 itself stops at 100 KiB."""
_BYTES_OF_A_PART = 512
"""On average at least, of a body in chunks: one of 1 byte takes as long as one of 16 KiB, 15 us."""
_FREE_PARTS = 4096
_OF_THE_SERVER = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    OSError,
    EOFError,
    ValueError,
    LookupError,
    AssertionError,
    RuntimeError,
)
"""What a server's bytes raise in TLS, h11 and the codecs below."""
_MOVED = {301, 302, 303, 307, 308}
_OK, _NOT_MODIFIED = 200, 304
_PASSING = {408, 425, 429, *range(500, 600)}
"""The server's own troubles: nothing is said of what lies there."""


class HttpProvenance:
    """Resolves as many references at once as it is asked to; nothing is kept between two."""

    name = "http"

    def __init__(self, rules: HttpRules, lookup: TenantLookup, tls: ssl.SSLContext) -> None:
        """`lookup` gives a tenant a host's addresses; `tls` says which certificates count."""
        self._rules = rules
        self._lookup = lookup
        self._tls = tls

    async def resolve(self, tenant: str, uri: str, previous: Known | None) -> ProvenanceAnswer:
        """Never raises for what a server does; `detail` is without a word of its own."""
        try:
            target = read_target(uri, self._rules)
        except Unresolvable as reason:
            return ProvenanceAnswer(None, str(reason), "refused")
        try:
            async with asyncio.timeout(self._rules.timeout_ms / 1000):
                return ProvenanceAnswer(
                    await self._follow(target, previous, partial(self._lookup, tenant)), ""
                )
        except Unresolvable as reason:
            return ProvenanceAnswer(None, str(reason), reason.failure)
        except (TimeoutError, httpcore2.TimeoutException):
            return ProvenanceAnswer(None, f"no whole answer within {self._rules.timeout_ms} ms", "passing")
        except _OF_THE_SERVER as fault:
            return ProvenanceAnswer(None, _describe(fault), "passing")

    async def _follow(self, target: HttpTarget, previous: Known | None, lookup: Lookup) -> Known:
        """Through the redirects. Conditions go to the first server only: another's "unchanged" would be about
        something else. What was found behind a redirect has no validators for the same reason."""
        for hop in range(self._rules.max_redirects + 1):
            answer = await self._ask(target, None if hop else previous, lookup)
            if isinstance(answer, Known):
                return answer._replace(etag=None, last_modified=None) if hop else answer
            target = follow_redirect(target, answer, self._rules)
        raise Unresolvable(f"redirected more than {self._rules.max_redirects} times")

    async def _ask(self, target: HttpTarget, previous: Known | None, lookup: Lookup) -> Known | str:
        """Return what lies there, or the Location of a redirect."""
        network = CheckedNetwork(self._rules, lookup, _HEAD_BYTES)
        connection = httpcore2.AsyncHTTPConnection(
            httpcore2.Origin(target.scheme.encode(), target.host.encode(), target.port),
            ssl_context=self._tls,
            network_backend=network,
        )
        try:
            response = await connection.handle_async_request(self._build_request(target, previous))
            fields = _read_fields(response.headers)
            if response.status in _MOVED:
                return fields.get("location", "")
            if response.status == _NOT_MODIFIED and previous is not None and build_conditions(previous):
                return previous
            if response.status != _OK:
                reason = f"the server answered {response.status}"
                raise Unresolvable(reason, "passing" if response.status in _PASSING else "lasting")
            network.left += 2 * self._rules.max_bytes
            return await self._read_body(response, fields)
        finally:
            await network.close()

    def _build_request(self, target: HttpTarget, previous: Known | None) -> httpcore2.Request:
        sent = {
            "host": target.authority,
            "accept": "*/*",
            "accept-encoding": "identity",
            "connection": "close",
        }
        url = httpcore2.URL(
            scheme=target.scheme.encode(),
            host=target.host.encode(),
            port=target.port,
            target=target.path.encode(),
        )
        connecting = {"connect": self._rules.timeout_ms / 2000}
        fields = list((sent | build_conditions(previous)).items())
        return httpcore2.Request("GET", url, headers=fields, extensions={"timeout": connecting})

    async def _read_body(self, response: httpcore2.Response, fields: dict[str, str]) -> Known:
        if fields.get("content-encoding", "identity") != "identity":
            raise Unresolvable("compressed though identity was asked for")
        most, digest, size = self._rules.max_bytes, hashlib.sha256(), 0
        async with aclosing(_read_parts(response)) as parts:
            count = 0
            async for part in parts:
                size, count = size + len(part), count + 1
                if size > most:
                    raise Unresolvable(f"longer than {most} bytes")
                if count > _FREE_PARTS + size // _BYTES_OF_A_PART:
                    raise Unresolvable("the body comes in parts of a few bytes")
                digest.update(part)
        return Known(f"sha256:{digest.hexdigest()}", size, *read_validators(fields))


def _read_parts(response: httpcore2.Response) -> AsyncGenerator[bytes, None]:
    stream: Any = response.stream
    parts: AsyncGenerator[bytes, None] = aiter(stream)
    return parts


def _read_fields(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Read the fields by lower-case name; repeated ones joined as RFC 9110, section 5.3 has it."""
    joined: dict[str, list[str]] = {}
    for name, value in headers:
        joined.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return {name: ", ".join(values) for name, values in joined.items()}


def _describe(fault: BaseException) -> str:
    if isinstance(fault, httpcore2.ConnectError):
        return "no connection, or none that TLS vouches for"
    return "the connection broke, or what came is no HTTP"
