"""The way to an MCP server by HTTP ends at its own origin, and an answer has an end."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp import Client, MCPError

from load.installations.loopback_http import HttpAnswer, HttpCall, serve_http
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

    def take(call: HttpCall) -> HttpAnswer:
        asked.append(call.path)
        moved = {} if location is None else {"location": location}
        said = {"content-type": "application/json", **moved, **(headers or {})}
        return HttpAnswer(200 if location is None else 307, answer, said)

    with serve_http(take) as url:
        yield f"{url}/mcp", asked


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
