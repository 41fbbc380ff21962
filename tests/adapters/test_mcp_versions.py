"""The MCP proxy speaks 2026-07-28 and the versions before it, to its client and to the server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server import NotificationOptions, Server
from mcp.server.runner import serve_loop
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolListChangedNotification

from sluice.adapters.mcp.pins import Pins
from sluice.adapters.mcp.proxy import Proxy
from sluice.adapters.mcp.proxy_file import ProxyOptions
from tests.adapters.scripted_gate import ScriptedGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NEW, OLD = "2026-07-28", "2025-11-25"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Upstream:
    """A server with the tool `read`; it remembers what it was sent."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.metas: list[dict[str, Any]] = []
        self.versions: list[str] = []
        self.session: Any = None
        self.changes = InMemorySubscriptionBus()
        self.server: Server[Any] = Server(
            "upstream",
            instructions="Read first.",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=ListenHandler(self.changes),
        )

    async def list_tools(self, ctx: Any, _: Any) -> ListToolsResult:
        self.session = ctx.session
        return ListToolsResult(
            tools=[Tool(name="read", description="Reads.", input_schema={"type": "object"})]
        )

    async def call_tool(self, ctx: Any, params: Any) -> CallToolResult:
        self.calls.append((params.name, params.arguments))
        self.metas.append(dict(ctx.meta or {}))
        self.versions.append(ctx.protocol_version)
        return CallToolResult(content=[TextContent(type="text", text="done")])

    def serve(self, version: str) -> Any:
        return self.server if version == NEW else _HandshakeOnly(self.server)


class _HandshakeOnly:
    """A transport to a server that has never heard of 2026-07-28."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def __aenter__(self) -> Any:
        self._context: Any = self._connect()
        return await self._context.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self._context.__aexit__(*error)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        options = self._server.create_initialization_options(NotificationOptions(tools_changed=True))
        async with (
            create_client_server_memory_streams() as (ours, (read, write)),
            anyio.create_task_group() as tasks,
        ):

            async def serve() -> None:
                await serve_loop(self._server, read, write, lifespan_state={}, init_options=options)

            tasks.start_soon(serve)
            yield ours
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def behind_proxy(
    gate: ScriptedGate, upstream: Any, folder: Path, version: str = NEW, **client: Any
) -> AsyncIterator[Client]:
    """A client of a version behind the proxy, in one process."""
    proxy = Proxy(gate, upstream, Pins(folder, "notes"), ProxyOptions("notes", "session", {}))  # type: ignore[arg-type]
    async with proxy.stand() as server, anyio.create_task_group() as tasks:
        reached: Any = server
        if version == OLD:
            reached = _HandshakeOnly(server)
        async with Client(reached, cache=None, **client) as agent:
            assert agent.protocol_version == version
            yield agent
        tasks.cancel_scope.cancel()


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
