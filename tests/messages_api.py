"""A loopback server that speaks the Messages API, for the real SDK to talk to: it answers by a script.

It refuses what the API of version 2026-10-21 refuses (unknown fields such as `temperature`, a schema with
bounds, a missing key), so a request that it takes is one that the API would take.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Reply = Callable[["Exchange"], Awaitable[None]]

MODEL = "claude-test-1"
_FIELDS = {"model", "max_tokens", "system", "messages", "output_config"}
_UNSUPPORTED = ("minimum", "maximum", "minLength", "maxLength", "maxItems", "pattern")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as it came, and the connection that it came on."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def respond(
        self, status: int, body: bytes, *headers: str, length: int | None = None, reason: str = "Said"
    ) -> None:
        """A whole response; `length` is what Content-Length claims, if not the truth."""
        shown = len(body) if length is None else length
        lines = (
            f"HTTP/1.1 {status} {reason}",
            "content-type: application/json",
            f"content-length: {shown}",
            *headers,
        )
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self.writer.drain()


@dataclass(slots=True)
class MessagesApi:
    """What tests ask the server: where it is, what it was asked, which clients hung up on it."""

    base_url: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def messages_api(
    *script: Reply, refusal_of: Callable[[Exchange], Reply | None] | None = None
) -> AsyncIterator[MessagesApi]:
    """Serves on a free loopback port; the n-th request gets the n-th reply, later ones the last. A request
    that `refusal_of` refuses gets that; by default what the Messages API would not take."""
    refused = refusal_of or _refusal_of
    api = MessagesApi()
    connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[writer] = asyncio.current_task()
        try:
            while (exchange := await _read(reader, writer)) is not None:
                api.exchanges.append(exchange)
                reply = script[min(len(api.exchanges), len(script)) - 1]
                await (refused(exchange) or reply)(exchange)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            api.hung_up.set()
            writer.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    api.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()
        await asyncio.gather(*(task for task in connections.values() if task is not None))


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
    """The next request of a connection, or None at its end."""
    request_line = (await reader.readline()).decode()
    if not request_line:
        return None
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Exchange(request_line.split(" ")[1], headers, json.loads(raw or b"{}"), reader, writer)


def _refusal_of(exchange: Exchange) -> Reply | None:
    """What the API says to a request that it would not take."""
    if not exchange.headers.get("authorization", "").startswith("Bearer "):
        return make_failing(401, "authentication_error")
    if exchange.path != "/v1/messages" or "anthropic-version" not in exchange.headers:
        return make_failing(404, "not_found_error")
    unknown = set(exchange.body) - _FIELDS
    bounded = [word for word in _UNSUPPORTED if f'"{word}"' in json.dumps(exchange.body["output_config"])]
    return make_failing(400, "invalid_request_error") if unknown or bounded else None


def judge_with(**judgement: Any) -> Reply:
    """The model's answer with this judgement, in place of an ordinary one."""
    ordinary = {"categories": [], "explanation": "An ordinary note.", "trust": 0.9}
    return reply_with_text(json.dumps(ordinary | judgement))


def reply_with_text(text: str, **message: Any) -> Reply:
    """The model's answer with this text; `message` replaces fields of the message around it."""
    whole = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [
            {"type": "thinking", "thinking": "", "signature": "c2ln"},
            {"type": "text", "text": text},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }
    return answer(200, json.dumps(whole | message).encode())


def answer(status: int, body: bytes, *headers: str, reason: str = "Said") -> Reply:
    """These bytes under this status."""

    async def reply(exchange: Exchange) -> None:
        await exchange.respond(status, body, *headers, reason=reason)

    return reply


def make_failing(status: int, kind: str, *headers: str, message: str = "refused") -> Reply:
    """The API's error of this status and type."""
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_01"}
    return answer(status, json.dumps(body).encode(), *headers)


def echo_key(place: Callable[[str], Reply]) -> Reply:
    """The reply that `place` makes of the key that the request came with."""

    async def reply(exchange: Exchange) -> None:
        await place(exchange.headers["authorization"].removeprefix("Bearer "))(exchange)

    return reply


async def silent(exchange: Exchange) -> None:
    """Nothing at all until the client hangs up."""
    await exchange.reader.read()
    raise ConnectionResetError


async def half(exchange: Exchange) -> None:
    """The first half of an answer, and the connection closed."""
    await exchange.respond(200, b'{"type": "message", "content": [', length=400)
    raise ConnectionResetError


async def close_connection(exchange: Exchange) -> None:
    """The connection closed without a byte."""
    raise ConnectionResetError


async def drip(exchange: Exchange) -> None:
    """A byte at a time, for as long as the client listens: every read comes in time, the answer never."""
    await exchange.respond(200, b"", length=1_000_000)
    listening = asyncio.ensure_future(exchange.reader.read())
    while not listening.done():
        exchange.writer.write(b" ")
        await exchange.writer.drain()
        await asyncio.wait([listening], timeout=0.01)
    raise ConnectionResetError


async def flood(exchange: Exchange) -> None:
    """An answer of a gigabyte, as fast as the client takes it."""
    await exchange.respond(200, b'{"type": "message", "junk": "', length=2**30)
    while not exchange.reader.at_eof():
        exchange.writer.write(b"x" * 65536)
        await exchange.writer.drain()
