"""HTTP servers on loopback, in a thread, that stand in for services of others in tests and loads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

POLL_S = 0.02
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class HttpCall(NamedTuple):
    """A request. `headers`: by name in any case."""

    method: str
    path: str
    headers: Message
    body: bytes


class HttpAnswer(NamedTuple):
    """What is answered; Content-Length goes with it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = NO_HEADERS


Answering = Callable[[HttpCall], HttpAnswer | None]
"""What a request comes to; None ends the connection without an answer."""


class LoopbackServer:
    """Answers every GET and POST by `answer`, each in a thread of its own. `port`: 0 for one that is free."""

    def __init__(self, answer: Answering, port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = answer(HttpCall(self.command, self.path, self.headers, body))
                if reply is None:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = _serve  # noqa: N815 - the base class's names

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serve_http(answer: Answering) -> Iterator[str]:
    """The base URL of a running server, without a slash at its end."""
    server = LoopbackServer(answer)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
