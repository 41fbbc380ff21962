"""The way to an MCP server by HTTP ends at its own origin, and an answer has an end."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

from mcp import Client, MCPError

from sluice.adapters.mcp import remote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest


@contextmanager
def serve(
    answer: bytes, location: str | None = None, headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """A server that answers each POST with these bytes, or a redirect; its URL, and the paths it was sent."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200 if location is None else 307)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            if location is not None:
                self.send_header("location", location)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", asked
    finally:
        server.shutdown()
        server.server_close()


async def fail(url: str) -> str:
    """What a connection ends with."""
    try:
        async with Client(remote.reach_by_http(url), cache=None):
            return "connected"
    except (MCPError, BaseExceptionGroup) as raised:
        error: BaseException = raised
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return str(error)


async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    with serve(b"{}") as (elsewhere, strayed), serve(b"", elsewhere) as (url, asked):
        assert "not followed" in await fail(url)
    assert asked
    assert strayed == []


async def test_an_answer_that_is_too_long_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_ANSWER_BYTES", 1000)
    with serve(json.dumps({"much": "x" * 2000}).encode()) as (url, _):
        assert "more than 1000 bytes" in await fail(url)
