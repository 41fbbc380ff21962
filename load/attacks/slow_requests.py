"""Slow requests: hold the gateway's connections and memory with requests that never end or never fit.

The gateway's own protocol and edge, over sockets on loopback; behind them an application that answers at
once, so that whatever is held is held by them.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from load.attacks.attempt import Attempt
from sluice.gateway.http.edge import Edge, EdgeRules
from sluice.gateway.http.http_protocol import GatewayProtocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from load.attacks.attempt import Extent

TIMEOUT_S, PATIENCE_S = 1, 30.0
"""A connection must be answered or cut off within the time-out; the rest is for a busy machine."""
MOST = 64 * 1024
POST = b"POST / HTTP/1.1\r\nHost: gate\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
Sent = tuple[str, bytes, bytes, bytes]
REQUESTS: tuple[Sent, ...] = (
    ("headers that come byte by byte", b"GET / HTTP/1.1\r\nHost: gate\r\nX-A: ", b"a", b""),
    ("nothing but a connection", b"", b"", b""),
    ("a request line that does not end", b"GET /", b"a", b""),
    ("a body that comes byte by byte", POST + b"Content-Length: 60000\r\n\r\n", b"a", b"408"),
    ("chunks that come one by one", CHUNKED, b"1\r\na\r\n", b"408"),
    ("a chunk that is announced and does not come", CHUNKED + b"ff\r\n", b"", b"408"),
    ("a body that is announced too long", POST + b"Content-Length: 999999999\r\n\r\n", b"", b"413"),
    ("a chunked body without an end", CHUNKED + b"8000\r\n" + b"a" * 0x8000 + b"\r\n", b"", b"408"),
    ("a chunked body over the limit", CHUNKED + (b"8000\r\n" + b"a" * 0x8000 + b"\r\n") * 3, b"", b"413"),
    ("five thousand headers", POST + b"X-A: a\r\n" * 5_000 + b"\r\n", b"", b"431"),
    ("a hundred headers and one more", POST + b"X-A: a\r\n" * 100 + b"\r\n", b"", b"431"),
    ("one header of 40 KB", POST + b"X-A: " + b"a" * 40_000 + b"\r\n\r\n", b"", b"431"),
    ("one header of 1 MB", POST + b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n", b"", b"400"),
    ("two lengths", POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\na", b"", b"400"),
    ("a length below nothing", POST + b"Content-Length: -1\r\n\r\n", b"", b"400"),
)
"""What is tried, what is sent first, what is sent again and again behind it, and the status it must get
(none: the connection is cut off)."""


ONE_BYTE = POST + b"Content-Length: 1\r\nConnection: close\r\n\r\na"
HONEST = ("an honest request beside them", ONE_BYTE, b"", b"200")


def run(extent: Extent) -> Iterator[Attempt]:
    """Each kind by itself, then an honest request beside many slow ones."""
    yield from asyncio.run(_try_crowd(20 if extent == "short" else 500))


async def _try_crowd(crowd: int) -> list[Attempt]:
    async with _gateway() as port:
        attempts = await asyncio.gather(*(_one(port, *request) for request in REQUESTS))
        slow = [asyncio.create_task(_one(port, *request)) for request in REQUESTS[:5] * (crowd // 5)]
        honest = await asyncio.gather(*(_one(port, *HONEST) for _ in range(5)))
        beside = [await task for task in slow]
    held = all(attempt.held for attempt in beside)
    more = Attempt(
        f"{crowd} slow connections at once", held, f"{sum(attempt.held for attempt in beside)} ended"
    )
    return [
        *attempts,
        more,
        *(Attempt(attempt.tried, attempt.held, attempt.answer, harmless=True) for attempt in honest),
    ]


async def _one(port: int, tried: str, first: bytes, again: bytes, status: bytes) -> Attempt:
    """Send until the connection ends; whoever is cut off while sending reads what was said before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(_send(writer, first, again))
    began = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer = await _read_to_end(reader)
    except TimeoutError:
        return Attempt(tried, held=False, answer="it is held for ever")
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
    code = answer[9:12]
    return Attempt(
        tried, code == status, f"{code.decode() or 'cut off'} after {time.monotonic() - began:.1f} s"
    )


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    answer = b""
    try:
        while more := await reader.read(65536):
            answer += more
    except ConnectionError:
        pass
    return answer


async def _send(writer: asyncio.StreamWriter, first: bytes, again: bytes) -> None:
    writer.write(first)
    await writer.drain()
    while again:
        writer.write(again)
        await writer.drain()
        await asyncio.sleep(0.05)


async def _answer(_: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def _gateway() -> AsyncIterator[int]:
    """The port of a gateway's outermost layers."""
    options: dict[str, Any] = {"http": GatewayProtocol, "timeout_keep_alive": TIMEOUT_S}
    config = uvicorn.Config(
        Edge(_answer, EdgeRules(MOST, TIMEOUT_S)),
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
        **options,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())  # noqa: SLF001 - `serve` takes over the process's signals
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await serving
