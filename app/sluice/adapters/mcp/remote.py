"""The way to an MCP server by Streamable HTTP.

The SDK follows a redirect only within the server's own origin, verifies TLS, and bounds an event (1 MiB) and
the time without a byte. It does not bound an answer that is one JSON value: that is done here.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOST_ANSWER_BYTES = 16 * 1024 * 1024
"""The longest answer of a server that is one JSON value."""
CONNECT_S, QUIET_S = 30.0, 300.0
"""The longest time to connect or send, and without a byte of an answer."""


@asynccontextmanager
async def reach_by_http(url: str) -> AsyncIterator[Any]:
    """The streams of a connection, as the SDK's client takes them."""
    async with (
        httpx2.AsyncClient(
            timeout=httpx2.Timeout(CONNECT_S, read=QUIET_S), event_hooks={"response": [_bound_answer]}
        ) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_ANSWER_BYTES
        async for part in self._stream:
            left -= len(part)
            if left < 0:
                raise httpx2.StreamError(f"an answer of more than {MOST_ANSWER_BYTES} bytes")
            yield part

    async def aclose(self) -> None:
        """Close the stream within."""
        await self._stream.aclose()


async def _bound_answer(response: httpx2.Response) -> None:
    """An event stream may go on for days; its events are bounded one by one."""
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = _BoundedStream(response.stream)
