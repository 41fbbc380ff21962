"""The MCP proxy speaks 2026-07-28 and the versions before it, to its client and to the server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mcp.client._memory import InMemoryTransport
from mcp.server.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification

from tests.adapters.mcp_in_memory import NEW, OLD, Upstream, behind_proxy
from tests.adapters.scripted_gate import ScriptedGate

if TYPE_CHECKING:
    from pathlib import Path

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("client", [NEW, OLD])
@pytest.mark.parametrize("server", [NEW, OLD])
async def test_each_side_speaks_its_version_and_only_what_is_allowed_is_called(
    client: str, server: str, tmp_path: Path
) -> None:
    upstream, gate = Upstream(), ScriptedGate()
    async with behind_proxy(gate, upstream.serve(server), tmp_path, client) as agent:
        assert agent.instructions == "Read first."
        assert [one.name for one in (await agent.list_tools()).tools] == ["read"]
        assert not (await agent.call_tool("read", {"text": "a", "n": 0.1})).is_error
        gate.verdicts["notes.read"] = "denied"
        denied = await agent.call_tool("read", {"text": "b"})
    assert denied.is_error
    assert denied.structured_content["verdict"] == "denied"
    assert upstream.calls == [("read", {"text": "a", "n": 0.1})]
    assert upstream.versions == [server]
    assert [name for name, _ in gate.asked] == ["notes.read", "notes.read"]


@pytest.mark.parametrize("client", [NEW, OLD])
@pytest.mark.parametrize("server", [NEW, OLD])
async def test_that_the_tools_changed_reaches_the_agent_in_each_version(
    client: str, server: str, tmp_path: Path
) -> None:
    upstream, heard = Upstream(), asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    async def change() -> None:
        while not heard.is_set():  # the server may listen only a moment later
            await upstream.changes.publish(ToolsListChanged())
            if server == OLD:
                await upstream.session.send_tool_list_changed()
            await asyncio.sleep(0.01)

    async with behind_proxy(
        ScriptedGate(), upstream.serve(server), tmp_path, client, message_handler=hear
    ) as agent:
        await agent.list_tools()
        async with asyncio.timeout(5):
            if client == NEW:
                async with agent.listen(tools_list_changed=True):
                    await change()
            else:
                await change()


async def test_a_traceparent_is_continued_and_what_else_a_trace_may_bring_is_dropped(tmp_path: Path) -> None:
    upstream, gate = Upstream(), ScriptedGate()
    meta = {"traceparent": TRACE, "tracestate": "x=secret", "baggage": "key=secret"}
    async with behind_proxy(gate, InMemoryTransport(upstream.server), tmp_path) as agent:
        await agent.call_tool("read", {}, meta=dict(meta))
        await agent.call_tool("read", {})
        await agent.call_tool("read", {}, meta={"traceparent": "no trace"})
    assert gate.traces == [TRACE, None, None]
    assert upstream.metas[0]["traceparent"] == TRACE
    assert "secret" not in str(upstream.metas)
