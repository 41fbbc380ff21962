"""The MCP proxy behind a port: who may come in, and what they find."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ToolListChangedNotification

from sluice.adapters.mcp.listening import PATH, Door, bind, make_http_server, read_door
from sluice.adapters.mcp.pins import Pins
from sluice.adapters.mcp.proxy import Proxy
from sluice.adapters.mcp.proxy_file import Listening, ProxyFileError, ProxyOptions, read_proxy_file
from tests.adapters.mcp_in_memory import NEW, OLD, Upstream
from tests.adapters.scripted_gate import ScriptedGate
from tests.adapters.test_mcp_server_requests import AskingUpstream, User, allow, elicit, read, wait_until
from tests.documents.blocks import blocks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TOKEN = "t" * 43
BEARER = {"authorization": f"Bearer {TOKEN}"}
MODES = {NEW: "auto", OLD: "legacy"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@asynccontextmanager
async def behind_port(
    gate: Any, upstream: Any, folder: Path, options: ProxyOptions | None = None, **door: Any
) -> AsyncIterator[str]:
    """The address of a proxy that listens."""
    made = Door("127.0.0.1", 0, TOKEN, **door)
    proxy = Proxy(gate, upstream, Pins(folder, "notes"), options or ProxyOptions("notes", "session", {}))
    async with proxy.stand() as server:
        with bind(made) as bound:
            serving = make_http_server(server, made, bound)
            task = asyncio.create_task(serving.serve(sockets=[bound]))
            await wait_until(lambda: serving.started)
            try:
                yield f"http://127.0.0.1:{bound.getsockname()[1]}{PATH}"
            finally:
                serving.should_exit = True
                async with asyncio.timeout(10):
                    await task


@asynccontextmanager
async def come_in(address: str, version: str, **client: Any) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=BEARER) as http:
        reached = streamable_http_client(address, http_client=http)
        async with Client(reached, cache=None, mode=MODES[version], **client) as agent:
            assert agent.protocol_version == version
            yield agent


@pytest.mark.parametrize("client", [NEW, OLD])
async def test_clients_with_the_token_act_as_the_agent_at_the_same_time(client: str, tmp_path: Path) -> None:
    gate, upstream = ScriptedGate(notes__read="allowed"), Upstream()
    async with (
        behind_port(gate, upstream.server, tmp_path) as address,
        come_in(address, client) as first,
        come_in(address, client) as second,
    ):
        assert first.server_capabilities.tools.list_changed
        for agent in (first, second):
            assert not (await agent.call_tool("read", {"n": 1})).is_error
        gate.verdicts["notes.read"] = "denied"
        assert (await second.call_tool("read", {"n": 2})).is_error
    assert upstream.calls == [("read", {"n": 1})] * 2
    assert gate.sessions == {"session"}


@pytest.mark.parametrize("version", [NEW, OLD, None])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": TOKEN}, 401),
        ({**BEARER, "host": "evil.example"}, 421),
        ({**BEARER, "host": "evil.example:80"}, 421),
        ({**BEARER, "origin": "https://evil.example"}, 403),
        ({**BEARER, "origin": "null"}, 403),
        ({**BEARER, "origin": "http://127.0.0.1:1"}, 403),
    ],
)
async def test_what_has_no_token_or_comes_by_another_name_is_refused(
    version: str | None, headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    gate, upstream = ScriptedGate(), Upstream()
    more = {} if version is None else {"mcp-protocol-version": version}
    async with (
        behind_port(gate, upstream.server, tmp_path) as address,
        httpx2.AsyncClient(headers={**ACCEPT, **headers, **more}) as http,
    ):
        answers = [
            await http.post(address, json=PING),
            await http.get(address),
            await http.delete(address),
        ]
        if status == 401:
            answers.append(await http.post(f"{address}/other", json=PING))
    assert {one.status_code for one in answers} == {status}
    assert all(TOKEN not in one.text for one in answers)
    assert gate.asked == []


async def test_who_is_refused_is_answered_after_the_body_because_an_earlier_end_resets_the_connection() -> (
    None
):
    parts = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.request", "body": b"}"},
    ]
    sent: list[tuple[int, Any]] = []

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append((len(parts), message.get("status")))

    with bind(Door("127.0.0.1", 0, TOKEN)) as bound:
        check: Any = make_http_server(Upstream().server, Door("127.0.0.1", 0, TOKEN), bound).config.app
        await check({"type": "http", "headers": []}, receive, send)
    assert sent == [(0, 401), (0, None)]


async def test_who_is_refused_and_sends_no_body_is_answered_soon(tmp_path: Path) -> None:
    async with behind_port(ScriptedGate(), Upstream().server, tmp_path) as address:
        url = httpx2.URL(address)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"POST {url.path} HTTP/1.1\r\nhost: {url.host}\r\ncontent-length: 2\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")


async def test_two_tokens_in_one_request_are_refused(tmp_path: Path) -> None:
    given = [("authorization", BEARER["authorization"]), ("authorization", "Bearer other")]
    async with (
        behind_port(ScriptedGate(), Upstream().server, tmp_path) as address,
        httpx2.AsyncClient(headers=[*ACCEPT.items(), *given]) as http,
    ):
        assert (await http.post(address, json=PING)).status_code == 401


async def test_names_that_the_operator_gives_may_come_in(tmp_path: Path) -> None:
    named: dict[str, Any] = {"hosts": ("mcp.ours.example",), "origins": ("https://ours.example",)}
    headers = {**ACCEPT, **BEARER, "host": "mcp.ours.example", "origin": "https://ours.example"}
    async with (
        behind_port(ScriptedGate(), Upstream().server, tmp_path, **named) as address,
        httpx2.AsyncClient(headers=headers) as http,
    ):
        assert (await http.post(address, json=PING)).status_code not in (401, 403, 421)


async def test_a_long_body_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.adapters.mcp.listening.MOST_BODY_BYTES", 1000)
    async with (
        behind_port(ScriptedGate(), Upstream().server, tmp_path) as address,
        httpx2.AsyncClient(headers={**ACCEPT, **BEARER}) as http,
    ):
        answer = await http.post(address, json={**PING, "params": {"x": "y" * 1000}})
    assert answer.status_code == 413


@pytest.mark.parametrize("client", [NEW, OLD])
async def test_that_the_tools_changed_reaches_every_client(client: str, tmp_path: Path) -> None:
    upstream, heard = Upstream(), [asyncio.Event(), asyncio.Event()]

    def hear(number: int) -> Any:
        async def note(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                heard[number].set()

        return note

    async def change() -> None:
        while not all(one.is_set() for one in heard):
            await upstream.session.send_tool_list_changed()
            await asyncio.sleep(0.02)

    async with (
        behind_port(ScriptedGate(), upstream.serve(OLD), tmp_path) as address,
        come_in(address, client, message_handler=hear(0)) as first,
        come_in(address, client, message_handler=hear(1)) as second,
        asyncio.timeout(10),
    ):
        await first.list_tools()
        await second.list_tools()
        if client == OLD:
            await change()
        else:
            async with first.listen(tools_list_changed=True), second.listen(tools_list_changed=True):
                await change()


@pytest.mark.parametrize("client", [NEW, OLD])
@pytest.mark.parametrize("server", [NEW, OLD])
async def test_a_client_is_asked_by_http_as_well(client: str, server: str, tmp_path: Path) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(elicit())
    async with (
        behind_port(gate, upstream.serve(server), tmp_path, allow()) as address,
        come_in(address, client, **user.callbacks) as agent,
    ):
        assert read(await agent.call_tool("read", {}))[0]["content"] == {"name": "ada"}
    assert len(user.asked) == 1


@pytest.mark.parametrize("client", [NEW, OLD])
async def test_it_stops_while_a_call_runs_and_reports_the_call(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.adapters.mcp.listening.STOP_S", 1)

    class Slow(Upstream):
        async def call_tool(self, ctx: Any, params: Any) -> Any:
            await super().call_tool(ctx, params)
            await asyncio.sleep(60)

    async def call(address: str) -> None:
        async with come_in(address, client) as agent:
            await agent.call_tool("read", {})

    gate, upstream = ScriptedGate(), Slow()
    async with behind_port(gate, upstream.server, tmp_path) as address:
        calling = asyncio.ensure_future(call(address))
        await wait_until(lambda: bool(upstream.calls))
    await wait_until(lambda: bool(gate.finished))
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert [error for _, error, _ in gate.finished] == ["CancelledError"]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "8765", "127.0.0.1:port", "a@127.0.0.1:1", "127.0.0.1:1/x", ":1"]
)
def test_an_address_that_is_none_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(ProxyFileError, match="HOST:PORT"):
        read_door(address, Listening(), write_token(tmp_path))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "localhost:1"])
def test_an_address_of_this_machine_needs_a_token_alone(address: str, tmp_path: Path) -> None:
    assert read_door(address, Listening(), write_token(tmp_path)).token == TOKEN


@pytest.mark.parametrize("address", ["0.0.0.0:1", "[::]:1", "gate.example:1"])
def test_another_address_needs_names(address: str, tmp_path: Path) -> None:
    with pytest.raises(ProxyFileError, match="hosts"):
        read_door(address, Listening(), write_token(tmp_path))
    assert read_door(address, Listening(hosts=["gate.example"]), write_token(tmp_path)).hosts


def write_token(folder: Path, text: str = TOKEN, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_text(f"{text}\n")
    file.chmod(mode)
    return file


def test_a_token_that_is_short_readable_by_others_or_missing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, variable = "127.0.0.1:1", "GIVEN"
    for file, given, said in (
        (None, None, "needs a token"),
        (write_token(tmp_path), variable, "needs a token"),
        (None, variable, "holds no token"),
        (tmp_path / "none", None, "cannot read"),
    ):
        with pytest.raises(ProxyFileError, match=said):
            read_door(here, Listening(token_env=given), file)
    for text, mode, said in (
        ("short", 0o600, "no token"),
        ("a " * 40, 0o600, "no token"),
        (TOKEN, 0o644, "mode"),
    ):
        with pytest.raises(ProxyFileError, match=said):
            read_door(here, Listening(), write_token(tmp_path, text, mode))
    monkeypatch.setenv(variable, TOKEN)
    assert read_door(here, Listening(token_env=variable), None).token == TOKEN


def test_the_file_of_the_guide_names_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = [one.text for one in blocks("docs/mcp.md") if one.text.startswith("[listen]")]
    (tmp_path / "mcp.toml").write_text(text)
    given = read_proxy_file(tmp_path / "mcp.toml").listen
    monkeypatch.setenv(str(given.token_env), TOKEN)
    door = read_door(str(given.address), given, None)
    assert (door.port, door.hosts, door.origins) == (
        8765,
        ("mcp.example.com",),
        ("https://chat.example.com",),
    )
