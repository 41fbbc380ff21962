"""Ways past the MCP proxy, or to stop it, that somebody has looked for and that must stay shut."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import ElicitResult, ToolListChangedNotification
from typer.testing import CliRunner

from load.attacks.mcp_host import SCRIPT
from sluice.adapters.mcp import listening, remote
from sluice.adapters.mcp.pins import Pins, name_key
from sluice.cli.machine import mcp_pins
from tests.adapters.mcp_in_memory import NEW, OLD, Upstream, behind_proxy
from tests.adapters.scripted_gate import ScriptedGate
from tests.adapters.test_mcp_listening import ACCEPT, BEARER, PING, behind_port
from tests.adapters.test_mcp_remote import serve
from tests.adapters.test_mcp_server_requests import (
    ELICIT,
    AskingUpstream,
    User,
    allow,
    elicit,
    read,
    sample,
    wait_until,
)
from tests.documents.blocks import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DONE = {"result": {"content": [{"type": "text", "text": "done"}]}}


def start_server(folder: Path) -> StdioServerParameters:
    """A server that writes what its caller says, started by the proxy."""
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    words = ["-m", "load.attacks.hostile_server", str(script)]
    return StdioServerParameters(command=sys.executable, args=words, cwd=ROOT)


async def call(agent: Client, say: dict[str, Any]) -> Any:
    async with asyncio.timeout(30):
        return await agent.call_tool("read", {"say": json.dumps(say)})


class AskingInLists(AskingUpstream):
    """It asks while its tools are listed, once it has been called."""

    is_called = False

    async def list_tools(self, ctx: Any, params: Any) -> Any:
        if self.is_called:
            self.answer = asyncio.ensure_future(ctx.session.send_request(elicit(), ElicitResult))
            await asyncio.wait((self.answer,), timeout=10)
        return await super().list_tools(ctx, params)


@pytest.mark.parametrize("client", [NEW, OLD])
async def test_a_server_asks_nobody_in_a_call_that_the_gate_has_not_allowed(
    client: str, tmp_path: Path
) -> None:
    upstream, gate, user = AskingInLists(), ScriptedGate(notes__read="denied"), User()
    async with behind_proxy(gate, upstream.serve(OLD), tmp_path, client, allow(), **user.callbacks) as agent:
        upstream.is_called = True
        assert (await agent.call_tool("read", {})).is_error
        assert upstream.answer.result().action == "cancel"
    assert user.asked == []
    assert [name for name, _ in gate.asked] == ["notes.read"]


@pytest.mark.parametrize("client", [NEW, OLD])
async def test_an_approval_of_what_a_server_asks_has_an_effect(client: str, tmp_path: Path) -> None:
    """Where nobody waits for a person, the escalation is opened for nothing."""

    class Approved(ScriptedGate):
        async def permit(self, tool_name: str, *args: Any, **more: Any) -> Any:
            if more.get("approval_timeout_s"):
                self.verdicts.pop(tool_name, None)
            return await super().permit(tool_name, *args, **more)

    upstream, gate, user = AskingUpstream(elicit()), Approved(), User()
    gate.verdicts[ELICIT] = "needs_human"
    async with behind_proxy(gate, upstream.serve(OLD), tmp_path, client, allow(), **user.callbacks) as agent:
        assert read(await agent.call_tool("read", {}))[0]["action"] == "accept"


async def test_what_a_server_asks_and_nobody_has_named_stands_in_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    upstream = AskingUpstream(*[elicit()] * 5, sample())
    async with behind_proxy(ScriptedGate(), upstream.serve(OLD), tmp_path) as agent:
        with caplog.at_level(logging.WARNING):
            await agent.call_tool("read", {})
    for method in ("elicitation/create", "sampling/createMessage"):
        assert caplog.text.count(f"asks its client for '{method}'") == 1


async def test_a_line_without_an_end_ends_the_connection_and_the_call_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MOST_ANSWER_BYTES", 100_000)
    gate = ScriptedGate()
    async with behind_proxy(gate, start_server(tmp_path), tmp_path / "pins") as agent:
        with pytest.raises(MCPError):
            await call(agent, {"raw": ["x" * 10_000, 100], **DONE})
        with pytest.raises(MCPError):
            await call(agent, DONE)
    assert [error for _, error, _ in gate.finished] == ["MCPError"]


@pytest.mark.parametrize("raw", ["\xff\xfe\n", "\n", "no JSON\n", "[" * 5000 + "\n", '{"jsonrpc": "2.0"}\n'])
async def test_a_line_that_is_no_message_does_not_end_the_proxy(raw: str, tmp_path: Path) -> None:
    async with behind_proxy(ScriptedGate(), start_server(tmp_path), tmp_path / "pins") as agent:
        for _ in range(2):
            assert (await call(agent, {"raw": [raw, 3], **DONE})).content[0].text == "done"


async def test_answers_to_requests_that_nobody_made_and_second_ones_are_dropped(tmp_path: Path) -> None:
    made_up = [
        {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "made up"}]}}
        for number in range(50, 100)
    ]
    async with behind_proxy(ScriptedGate(), start_server(tmp_path), tmp_path / "pins") as agent:
        for _ in range(3):
            assert (await call(agent, {"first": made_up, **DONE})).content[0].text == "done"


@pytest.mark.control
async def test_control_a_server_that_is_started_answers_and_ends_with_the_proxy(tmp_path: Path) -> None:
    async with behind_proxy(ScriptedGate(), start_server(tmp_path), tmp_path / "pins") as agent:
        assert (await call(agent, DONE)).content[0].text == "done"


async def test_a_compressed_answer_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    body = gzip.compress(b" " * 50_000_000)
    assert len(body) < remote.MOST_ANSWER_BYTES
    unpacked: list[int] = []
    decode = httpx2.Response._get_content_decoder  # noqa: SLF001 - where an answer is unpacked

    def note(response: Any) -> Any:
        unpacked.append(1)
        return decode(response)

    monkeypatch.setattr(httpx2.Response, "_get_content_decoder", note)
    with (
        serve(body, headers={"content-encoding": "gzip"}) as (url, asked),
        pytest.raises((MCPError, ExceptionGroup)),
    ):
        async with Client(remote.reach_by_http(url), cache=None):
            pass
    assert asked
    assert unpacked == []


async def test_a_flood_of_changes_reaches_no_client_as_a_flood(tmp_path: Path) -> None:
    upstream, heard = Upstream(), []

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.append(message)

    async with behind_proxy(
        ScriptedGate(), upstream.serve(OLD), tmp_path, OLD, message_handler=hear
    ) as agent:
        await agent.list_tools()
        for _ in range(500):
            await upstream.session.send_tool_list_changed()
        await wait_until(lambda: bool(heard))
        await agent.call_tool("read", {})
    assert len(heard) < 50, "one a second, however slow this machine is"


async def test_strangers_with_open_connections_keep_nobody_out_and_are_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEADERS_S", 2)
    monkeypatch.setattr(listening, "MOST_REQUESTS_AT_ONCE", 4)
    begun = (b"", b"POST /mcp HTTP/1.1\r\n", b"GET /mcp HTTP/1.1\r\nx: ")
    async with behind_port(ScriptedGate(), Upstream().server, tmp_path) as address:
        url = httpx2.URL(address)
        strangers = [await asyncio.open_connection(url.host, url.port) for _ in range(30)]
        for number, (_, writer) in enumerate(strangers):
            writer.write(begun[number % 3])
        async with httpx2.AsyncClient(headers={**ACCEPT, **BEARER}) as http:
            assert (await http.post(address, json=PING)).status_code != 503
        async with asyncio.timeout(30):
            assert await asyncio.gather(*(reader.read() for reader, _ in strangers)) == [b""] * 30
        for _, writer in strangers:
            writer.close()


@pytest.mark.control
async def test_control_so_many_requests_of_clients_run_at_once_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MOST_REQUESTS_AT_ONCE", 0)
    async with (
        behind_port(ScriptedGate(), Upstream().server, tmp_path) as address,
        httpx2.AsyncClient(headers={**ACCEPT, **BEARER}) as http,
    ):
        assert (await http.post(address, json=PING)).status_code == 503


def test_a_person_accepts_what_was_shown_and_not_what_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, pins = name_key("read"), Pins(tmp_path, "notes")
    pins.admit({key: "as at first"})
    pins.admit({key: "harmless"})

    def change(*_: Any, **__: Any) -> bool:
        """While the person reads, a proxy lists the server's tools again."""
        assert pins.admit({key: "an order"}) == frozenset()
        return True

    monkeypatch.setattr("typer.confirm", change)
    said = CliRunner().invoke(mcp_pins.cli, ["accept", "notes", "--pins", str(tmp_path)])
    assert "harmless" in said.output
    assert pins.admit({key: "an order"}) == frozenset(), "nobody has seen this"
    assert pins.admit({key: "harmless"}) == {key}


def test_the_name_of_a_tool_does_not_write_on_the_screen_of_the_person_who_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins, asked = Pins(tmp_path, "notes"), []
    pins.admit({})
    pins.admit({name_key("a\x1b[2Jb"): "new"})

    def ask(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("typer.confirm", ask)
    said = CliRunner().invoke(mcp_pins.cli, ["accept", "notes", "--pins", str(tmp_path)])
    assert asked
    assert "\x1b[2J" not in asked[0] + said.output
