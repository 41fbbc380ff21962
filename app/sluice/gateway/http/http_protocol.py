"""HTTP/1.1 of a gateway: what the protocol itself refuses has our headers."""

from __future__ import annotations

import json
import uuid

import h11

from sluice.gateway.http.edge import ERROR_SCHEMA, EVENTS
from sluice.gateway.http.http_errors import build_error_body
from sluice.gateway.http.response_headers import ResponseFacts, build_response_headers
from sluice.http_connections import PromptProtocol


class GatewayProtocol(PromptProtocol):
    """A connection to a gateway."""

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
