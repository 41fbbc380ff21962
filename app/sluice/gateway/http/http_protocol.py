"""HTTP/1.1 as uvicorn speaks it; slow clients are cut off, and its own refusals have our headers."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sluice.gateway.http.edge import ERROR_SCHEMA, EVENTS
from sluice.gateway.http.http_errors import build_error_body
from sluice.gateway.http.response_headers import ResponseFacts, build_response_headers

if TYPE_CHECKING:
    import asyncio


class GatewayProtocol(H11Protocol):
    """A connection whose request lines and headers must come within the keep-alive time-out."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait until the headers are whole; the edge waits for the body."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._watch()
        else:
            self._unwatch()

    def shutdown(self) -> None:
        """The process stops: a stream of events would last for ever, so its connection ends."""
        super().shutdown()
        if self.cycle is not None and not self.cycle.response_complete and self.scope["path"] == EVENTS:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, and end the connection."""
        facts = ResponseFacts(str(uuid.uuid4()), schema=ERROR_SCHEMA)
        self.logger.warning("%s %s", facts.request_id, msg)
        body = json.dumps(build_error_body("not_http", msg, {})).encode()
        headers = [
            *build_response_headers(facts),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        reason = b"Bad Request"
        for event in (
            h11.Response(status_code=400, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        if self._slow is None:
            self._slow = self.loop.call_later(self.timeout_keep_alive, self._cut_off)

    def _unwatch(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _cut_off(self) -> None:
        self._slow = None
        if not self.transport.is_closing():
            self.transport.close()
