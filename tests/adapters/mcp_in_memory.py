"""An MCP server, the proxy and a client of each version, in one process, for tests that need no stream."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client
from mcp.server import NotificationOptions, Server
from mcp.server.runner import serve_loop
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from sluice.adapters.mcp.pins import Pins
from sluice.adapters.mcp.proxy import Proxy
from sluice.adapters.mcp.proxy_file import ProxyOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NEW, OLD = "2026-07-28", "2025-11-25"


class Upstream:
    """A server with the tool `read`; it remembers what it was sent."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.metas: list[dict[str, Any]] = []
        self.versions: list[str] = []
        self.session: Any = None
        self.declared: Any = None
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
        self.declared = ctx.session.client_capabilities
        self.metas.append(dict(ctx.meta or {}))
        self.versions.append(ctx.protocol_version)
        return CallToolResult(content=[TextContent(type="text", text="done")])

    def serve(self, version: str) -> Any:
        return self.server if version == NEW else HandshakeOnly(self.server)


class HandshakeOnly:
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
    gate: Any,
    upstream: Any,
    folder: Path,
    version: str = NEW,
    options: ProxyOptions | None = None,
    **client: Any,
) -> AsyncIterator[Client]:
    """A client of a version behind the proxy, in one process."""
    proxy = Proxy(gate, upstream, Pins(folder, "notes"), options or ProxyOptions("notes", "session", {}))
    async with proxy.stand() as server, anyio.create_task_group() as tasks:
        reached: Any = server
        if version == OLD:
            reached = HandshakeOnly(server)
        async with Client(reached, cache=None, **client) as agent:
            assert agent.protocol_version == version
            yield agent
        tasks.cancel_scope.cancel()
