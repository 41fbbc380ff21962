"""The proxy behind a port, by Streamable HTTP: for clients that do not start it themselves.

Every request must bring the token, which stands for the one agent of the proxy; the SDK checks Host and
Origin, so that no page in a browser reaches it by a name of its own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hmac import compare_digest
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server import NotificationOptions
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse

from sluice.adapters.mcp.proxy_file import ProxyFileError
from sluice.http_connections import PromptProtocol
from sluice.secrets.secret_files import SecretFileError, read_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sluice.adapters.mcp.proxy_file import Listening

log = logging.getLogger(__name__)
PATH = "/mcp"
FEWEST_TOKEN_CHARACTERS = 32
MOST_TOKEN_BYTES = 1024
MOST_BODY_BYTES = 4 * 1024 * 1024
MOST_SESSIONS, MOST_REQUESTS_AT_ONCE = 64, 256
MOST_CONNECTIONS, HEADERS_S = 512, 5
"""Connections at once, of strangers too, and seconds within which each must have sent a request's headers."""
MOST_REFUSED_BYTES, REFUSED_BODY_S = 64 * 1024, 1.0
"""How much of a refused request's body is read, and for how long, before the answer: a connection that is
closed while a body still arrives is reset, and the client may see that in place of the answer."""
STOP_S = 5
"""How long calls that run may take after the proxy was asked to stop; then they are cancelled."""
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Door:
    """Where the proxy listens, and who may come in. `hosts` and `origins`: values of these headers that
    count; without a header Origin, as no browser sends it, a request may come in."""

    host: str
    port: int
    token: str
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


def read_door(address: str, listening: Listening, token_file: Path | None) -> Door:
    """Raises ProxyFileError if the address, the token or the names cannot be used."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None or parts.netloc != address or "@" in address:
        raise ProxyFileError(f"listen: {address}: give HOST:PORT, such as 127.0.0.1:8765")
    if not _is_loopback(host) and not listening.hosts:
        raise ProxyFileError(
            f"listen: {address} is not of this machine alone: give the names under which clients reach it, "
            f"`hosts`, and have a proxy with TLS in front, because the token is sent as it is"
        )
    token = _read_token(token_file, listening.token_env)
    return Door(host, port, token, tuple(listening.hosts), tuple(listening.origins))


def bind(door: Door) -> socket.socket:
    """The socket of a door. Raises OSError."""
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    return socket.create_server((door.host, door.port), family=family)


async def listen(server: Server[Any], door: Door) -> None:
    """Serve until a signal stops the process. Raises OSError if the address is taken."""
    with bind(door) as bound, _leave_signals_to_the_server():
        host = f"[{door.host}]" if ":" in door.host else door.host
        log.warning("listening on %s:%s%s", host, bound.getsockname()[1], PATH)
        await make_http_server(server, door, bound).serve(sockets=[bound])


def make_http_server(server: Server[Any], door: Door, bound: socket.socket) -> uvicorn.Server:
    """What serves an MCP server behind a door."""
    telling = NotificationOptions(tools_changed=True)
    server.create_initialization_options = partial(server.create_initialization_options, telling)
    port = bound.getsockname()[1]
    hosts = [f"{name}:{port}" for name in _LOOPBACK_NAMES] if _is_loopback(door.host) else []
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MOST_BODY_BYTES,
        max_sessions=MOST_SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[*hosts, *door.hosts], allowed_origins=list(door.origins)
        ),
    )
    config = uvicorn.Config(
        _TokenCheck(application, door.token),
        http=PromptProtocol,
        timeout_keep_alive=HEADERS_S,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
    )
    return uvicorn.Server(config)


class _TokenCheck:
    """Lets in what brings the token, so much at once, and answers everything else 401."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self._application = application
        self._wanted = f"Bearer {token}".encode()
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if self._has_token(scope):
            await self._serve(scope, receive, send)
            return
        await _discard_body(receive)
        body = {"error": "unauthorized", "message": "Send the proxy's token: Authorization: Bearer TOKEN"}
        headers = {"www-authenticate": "Bearer", "connection": "close"}
        await JSONResponse(body, 401, headers)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._running >= MOST_REQUESTS_AT_ONCE:
            body = {"error": "busy", "message": f"{MOST_REQUESTS_AT_ONCE} requests run"}
            await JSONResponse(body, 503, {"retry-after": "1"})(scope, receive, send)
            return
        self._running += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._running -= 1

    def _has_token(self, scope: Scope) -> bool:
        tokens = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(tokens) == 1 and compare_digest(tokens[0], self._wanted)


async def _discard_body(receive: Receive) -> None:
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(REFUSED_BODY_S):
            while more and size <= MOST_REFUSED_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _read_token(file: Path | None, variable: str | None) -> str:
    if (file is None) == (variable is None):
        raise ProxyFileError("listen needs a token: `token_file`, or the variable's name in `token_env`")
    source = str(file or variable)
    if file is not None:
        try:
            token = read_secret(file, MOST_TOKEN_BYTES).decode("latin-1").strip()
        except SecretFileError as error:
            raise ProxyFileError(str(error)) from None
    else:
        token = os.environ.get(variable or "", "")
    if len(token) < FEWEST_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise ProxyFileError(
            f"{source} holds no token of at least {FEWEST_TOKEN_CHARACTERS} characters: "
            "`openssl rand -hex 32`"
        )
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def _leave_signals_to_the_server() -> Iterator[None]:
    """Uvicorn takes these signals, stops, and raises them again: by then nothing more is to be done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
