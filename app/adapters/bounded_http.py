"""An HTTP transport for servers that are not believed: it bounds what they say and drops their remarks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_BODY_IS = ("content-type", "application/json")
_WAITS = ("retry-after", "retry-after-ms")
_WAIT = re.compile(r"[0-9]{1,6}")
"""RFC 9110, section 10.2.3, without its dates: a year of 8 digits has the reader of dates raise."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Breaks off a response, of any status, beyond `max_bytes`, and one that is compressed.

    Both raise httpx2.RemoteProtocolError: to the client above, a broken connection. Compressed bytes could
    unfold to any size behind the bound. Of the headers only a wait in plain digits is passed on, and every
    body is JSON in UTF-8: the charset that a server names is that of a codec which may raise anything.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The inner transport's response, with its body counted as it is read."""
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        body = response.stream
        if not isinstance(body, httpx2.AsyncByteStream):
            raise httpx2.RemoteProtocolError("no asynchronous body", request=request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await body.aclose()
            raise httpx2.RemoteProtocolError("compressed though identity was asked for", request=request)
        response.extensions.pop("reason_phrase", None)  # the server's own words, which httpx2 would log
        response.headers = httpx2.Headers([_BODY_IS, *_waits(response.headers)])
        response.stream = _Counted(body, self._max_bytes)
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()


def _waits(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """How long to wait before the next request, in s and ms, where the server says so readably."""
    said = [(name, headers.get(name, "")) for name in _WAITS]
    return [(name, value) for name, value in said if _WAIT.fullmatch(value)]


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._left = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.RemoteProtocolError("the response is longer than any answer")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
