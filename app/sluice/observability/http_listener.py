"""A small HTTP listener for /metrics, /healthz and /readyz, bounded whatever comes to it.

It has a thread and a loop of its own, so that it answers while the process is busy and never holds it up:
the metrics are rendered at most twice a second, however often they are asked for. A request is one line and
its headers, read within a bound of bytes and time; with too many connections the oldest is closed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client import CollectorRegistry

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 32
LONGEST_HEAD = 8 * 1024
"""Bytes of a request line with its headers."""
HEAD_S = 5.0
"""Within which the whole head must have come, and within which a response must have been taken."""
RENDER_S = 0.5
"""How long rendered metrics are given again."""
START_S = 5.0
_JSON = "application/json"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Unavailable"}


class ListenError(Exception):
    """The address cannot be listened on; the message says why."""


class HealthChecks(NamedTuple):
    """`alive`: what is broken for good, None if nothing is: then a supervisor should start the process anew.
    `waits_for`: what the process waits for before it does its work, in words; none: it is ready. Both are
    called in the listener's thread and must return at once."""

    alive: Callable[[], str | None]
    waits_for: Callable[[], list[str]]


class _Response(NamedTuple):
    status: int
    content_type: str
    body: bytes


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:9464" or "[::1]:9464". Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - of TCP
        raise ValueError(f"{text!r} is no address: host:port, such as 127.0.0.1:9464")
    return host.removeprefix("[").removesuffix("]"), int(port)


class HttpListener:
    """Serves one process."""

    def __init__(self, address: str, registry: CollectorRegistry, checks: HealthChecks) -> None:
        """`address`: host:port; port 0: any free one. Raises ValueError."""
        self._host, self._port = parse_address(address)
        self._registry = registry
        self._checks = checks
        self._rendered = b""
        self._rendered_at = float("-inf")
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self._fault: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="observability", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    def start(self) -> None:
        """Listen. Raises ListenError."""
        self._thread.start()
        if not self._started.wait(START_S):
            raise ListenError(f"{self._host}:{self._port}: not listening after {START_S:g} s")
        if self._fault is not None:
            raise ListenError(f"{self._host}:{self._port}: {self._fault.strerror or self._fault}")

    def stop(self) -> None:
        """Listen no more, and end the connections. May be called again."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(START_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            try:
                runner.run(self._serve())
            except OSError as fault:
                self._fault = fault
            finally:
                self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(
            self._take, self._host, self._port, limit=LONGEST_HEAD, backlog=MOST_CONNECTIONS
        )
        self._port = server.sockets[0].getsockname()[1]
        log.info("metrics and health: http://%s:%d/metrics, /healthz, /readyz", self._host, self._port)
        self._started.set()
        async with server:
            await self._stopping.wait()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one response, and the end. With too many the oldest is closed, so that
        slow clients keep out no scrape."""
        if len(self._writers) >= MOST_CONNECTIONS:
            oldest = next(iter(self._writers))
            del self._writers[oldest]
            oldest.transport.abort()
        self._writers[writer] = None
        try:
            async with asyncio.timeout(HEAD_S):
                response = await self._read_and_answer(reader)
            if response is not None:
                async with asyncio.timeout(HEAD_S):
                    writer.write(_write(*response))
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (TimeoutError, OSError):
            pass
        finally:
            self._writers.pop(writer, None)
            writer.transport.abort()

    async def _read_and_answer(self, reader: asyncio.StreamReader) -> tuple[_Response, bool] | None:
        """The response, and whether its body is sent; None where nothing came."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _say(400, "the request is too long"), True
        except asyncio.IncompleteReadError as ended:
            return (_say(400, "no whole request"), True) if ended.partial else None
        parts = head.split(b"\r\n", 1)[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):  # noqa: PLR2004 - method, path, version
            return _say(400, "no HTTP/1.1"), True
        method, target, _ = parts
        if method not in (b"GET", b"HEAD"):
            return _say(405, "GET and HEAD only"), True
        return self._answer(target.split(b"?", 1)[0]), method == b"GET"

    def _answer(self, path: bytes) -> _Response:
        if path == b"/metrics":
            return _Response(200, CONTENT_TYPE_PLAIN_0_0_4, self._render())
        if path == b"/healthz":
            broken = self._checks.alive()
            return _json(200 if broken is None else 503, {"alive": broken is None, "broken": broken})
        if path == b"/readyz":
            waits_for = self._checks.waits_for()
            return _json(503 if waits_for else 200, {"ready": not waits_for, "waits_for": waits_for})
        return _say(404, "there are /metrics, /healthz and /readyz")

    def _render(self) -> bytes:
        now = time.monotonic()
        if now - self._rendered_at >= RENDER_S:
            self._rendered = generate_latest(self._registry)
            self._rendered_at = time.monotonic()
        return self._rendered


def _say(status: int, text: str) -> _Response:
    return _Response(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def _json(status: int, fields: Mapping[str, object]) -> _Response:
    return _Response(status, _JSON, json.dumps(fields, ensure_ascii=True).encode() + b"\n")


def _write(response: _Response, with_body: bool) -> bytes:
    status, content_type, body = response
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (body if with_body else b"")
