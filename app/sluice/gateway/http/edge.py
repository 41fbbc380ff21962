"""The outermost layer of the gateway (ASGI): what holds for every request and every response.

It gives each request its id, strips headers that only the gateway may set, reads the body within its bounds
of size and time, and writes seed 002's headers on whatever comes back. A fault in a handler becomes an answer
here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.http.response_headers import (
    PREFLIGHT,
    VERSION,
    VERSIONS,
    RawHeaders,
    ResponseFacts,
    build_cors_headers,
    build_response_headers,
    is_reserved,
    strip,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
ObserveRequest = Callable[[str, str | None, int, float], None]

log = logging.getLogger(__name__)
TRACEPARENT = b"traceparent"
FACTS = "facts"
"""In the scope's state: the ResponseFacts of the request."""
MOST_HEADERS, LONGEST_HEADERS = 100, 32 * 1024
"""Of a request; more are refused. The protocol bounds only what has not come whole yet."""
ERROR_SCHEMA = "sluice/error/v1"
EVENTS = "/review/live"
"""The stream of events that open pages follow; it lasts until its page is left."""


@dataclass(frozen=True, slots=True)
class EdgeRules:
    """`max_body_bytes`: a larger body is refused with 413. `body_timeout_s`: within which the whole body must
    have come. `allowed_origins`: of pages that may read responses, "*" for all."""

    max_body_bytes: int
    body_timeout_s: float
    allowed_origins: Sequence[str] = ()


class TracedRequest(Protocol):
    """A request whose trace is recorded. `traceparent`: what goes on in place of the caller's."""

    traceparent: str

    def end(self, method: str, template: str | None, status: int) -> None:
        """The response has ended. `template`: of the path, None for one that there is not."""


class RequestTracer(Protocol):
    """Records traces of requests."""

    def begin(self, received: str | None) -> TracedRequest | None:
        """A request has come, with this `traceparent`; None: it is not recorded."""


class Edge:
    """Wraps the application."""

    def __init__(
        self,
        app: AsgiApp,
        rules: EdgeRules,
        observe: ObserveRequest | None = None,
        tracer: RequestTracer | None = None,
    ) -> None:
        """`observe` gets the method, the path's template (None: there is no such path), the status and the
        seconds of each request; `tracer` begins and ends the trace of each."""
        self._tracer = tracer
        self._app = app
        self._rules = rules
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the application's lifespan. There are no WebSockets."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        facts = ResponseFacts(str(uuid.uuid4()))
        headers = dict(scope["headers"])
        writer = _Writer(send, facts, build_cors_headers(headers.get(b"origin"), self._rules.allowed_origins))
        received = headers.get(TRACEPARENT, b"").decode("latin-1") or None
        traced = None if self._tracer is None else self._tracer.begin(received)
        try:
            await self._handle(scope, receive, writer, facts, traced)
        except HttpError as error:
            await writer.refuse(error)
        except Exception:
            log.exception("request %s failed", facts.request_id)
            if not writer.status:
                await writer.refuse(HttpError(500, "internal_error", "the gateway failed; its log says why"))
        finally:
            took_ms = 1000 * (time.perf_counter() - began)
            template = getattr(scope.get("route"), "path", None)
            if self._observe is not None:
                self._observe(scope["method"], template, writer.status, took_ms / 1000)
            if traced is not None:
                traced.end(scope["method"], template, writer.status)
            log_fields = " ".join(f"{name}={json.dumps(value)}" for name, value in facts.log.items())
            where = scope["method"], scope.get("raw_path", b"").decode("latin-1")
            log.info(
                "%s %s %s %d %.1fms %s %s",
                facts.request_id,
                *where,
                writer.status,
                took_ms,
                facts.caller,
                log_fields,
                extra={
                    "method": scope["method"],
                    "request_id": facts.request_id,
                    "route": template,
                    "status": writer.status,
                    "took_ms": round(took_ms, 1),
                },
            )

    async def _handle(
        self,
        scope: Scope,
        receive: Receive,
        writer: _Writer,
        facts: ResponseFacts,
        traced: TracedRequest | None,
    ) -> None:
        _check_headers(scope["headers"])
        headers = dict(scope["headers"])
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            await writer.write_empty(204, PREFLIGHT)
            return
        stripped = strip(scope["headers"])
        _check_version(stripped)
        body = await self._read_body(receive, headers.get(b"content-length"))
        scope["headers"] = stripped if traced is None else _replace_traceparent(stripped, traced.traceparent)
        scope.setdefault("state", {})[FACTS] = facts
        await self._app(scope, _replay(body, receive), writer)

    async def _read_body(self, receive: Receive, announced: bytes | None) -> bytes:
        limit = self._rules.max_body_bytes
        if announced is not None and announced.isdigit() and int(announced[:20]) > limit:
            raise _make_too_large(limit)
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self._rules.body_timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HttpError(400, "client_gone", "the connection ended before the body did")
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
                    if size > limit:
                        raise _make_too_large(limit)
        except TimeoutError:
            limit_s = self._rules.body_timeout_s
            raise HttpError(408, "too_slow", f"the body did not come within {limit_s:g} s") from None
        return b"".join(parts)


class _Writer:
    """Sends a response with the gateway's headers in place of any of their names that a handler set."""

    def __init__(self, send: Send, facts: ResponseFacts, cors: RawHeaders) -> None:
        self._send = send
        self._facts = facts
        self._cors = cors
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = [(name, value) for name, value in message.get("headers", ()) if not is_reserved(name)]
            message["headers"] = [*own, *build_response_headers(self._facts), *self._cors]
        await self._send(message)

    async def refuse(self, error: HttpError) -> None:
        """Answer with an error."""
        self._facts.schema = ERROR_SCHEMA
        body = json.dumps(error.body, ensure_ascii=False).encode("utf-8", "replace")
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *build_error_headers(error),
        ]
        await self({"type": "http.response.start", "status": error.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})

    async def write_empty(self, status: int, headers: RawHeaders) -> None:
        """Answer without a body."""
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": b""})


def build_error_headers(error: HttpError) -> RawHeaders:
    """The headers that go with an error: when to come again; after 408, 413 and 431 the connection ends,
    since the rest of the request is not read."""
    headers: RawHeaders = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    if error.status in (408, 413, 431):
        headers.append((b"connection", b"close"))
    return headers


def _replace_traceparent(headers: RawHeaders, traceparent: str) -> RawHeaders:
    return [
        *((name, value) for name, value in headers if name != TRACEPARENT),
        (TRACEPARENT, traceparent.encode()),
    ]


def _check_headers(headers: RawHeaders) -> None:
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > MOST_HEADERS or size > LONGEST_HEADERS:
        message = f"a request has at most {MOST_HEADERS} headers of {LONGEST_HEADERS} bytes together"
        raise HttpError(431, "headers_too_large", message)


def _check_version(headers: RawHeaders) -> None:
    for name, value in headers:
        if name == VERSION and value.decode("latin-1") not in VERSIONS:
            message = f"this API has the versions {', '.join(VERSIONS)}"
            raise HttpError(400, "unknown_version", message, versions=list(VERSIONS))


def _make_too_large(limit: int) -> HttpError:
    return HttpError(413, "too_large", f"a body has at most {limit} bytes", max_bytes=limit)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, and then what else comes: that the client went away."""
    has_given_body = False

    async def receive_again() -> Message:
        nonlocal has_given_body
        if has_given_body:
            return await receive()
        has_given_body = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
