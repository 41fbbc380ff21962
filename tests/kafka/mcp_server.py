"""An MCP server for the tests, as a process: `python -m tests.kafka.mcp_server FILE [http]`.

FILE, JSON, says what it shows: {"instructions", "tools": {name: description}}. It is read for each request,
so that a test can change the tools while the server runs. Every call adds a line to FILE.calls. By HTTP it
prints its port first, and adds a line with the headers of MCP of each request to FILE.headers.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

FILE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
ANNOTATIONS = {
    "read": {"readOnlyHint": True},
    "rooms": {"readOnlyHint": True, "openWorldHint": False},
    "refund": {"destructiveHint": True, "openWorldHint": True},
}


def show_text() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text()))


async def list_tools(_: Any, __: Any) -> ListToolsResult:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return ListToolsResult.model_validate(
        {
            "tools": [
                Tool(name=name, description=said, input_schema=schema).model_dump(by_alias=True)
                | {"annotations": ANNOTATIONS.get(name)}
                for name, said in show_text()["tools"].items()
            ]
        }
    )


def ask_for_name() -> ElicitRequest:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    return ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=schema))


async def call_tool(ctx: Any, params: Any) -> CallToolResult | InputRequiredResult:
    with FILE.with_suffix(".calls").open("a") as calls:
        calls.write(json.dumps([params.name, params.arguments]) + "\n")
    await ctx.session.report_progress(1, 2, "half of it")
    given = params.arguments or {}
    if given.get("text") == "ask" and not params.input_responses:
        return InputRequiredResult(input_requests={"name": ask_for_name()})
    if given.get("text") == "ask":
        (answer,) = params.input_responses.values()
        return CallToolResult(content=[TextContent(type="text", text=answer.model_dump_json())])
    if given.get("text") == "die":
        os._exit(1)
    if given.get("text") == "sleep":
        await asyncio.sleep(3600)
    content = [TextContent(type="text", text=given.get("text", "done"))]
    return CallToolResult(content=content, is_error=given.get("text") == "fail")


def server() -> Server[Any]:
    return Server(
        "tested", instructions=show_text()["instructions"], on_list_tools=list_tools, on_call_tool=call_tool
    )


async def serve_by_stdio() -> None:
    made = server()
    async with stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


def serve_by_http() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
    app = server().streamable_http_app()

    async def keep_headers(scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): one.decode() for name, one in scope.get("headers", ())}
        with FILE.with_suffix(".headers").open("a") as file:
            file.write(json.dumps({name: one for name, one in headers.items() if "mcp" in name}) + "\n")
        await app(scope, receive, send)

    uvicorn.Server(uvicorn.Config(keep_headers, log_level="warning")).run([listening])


if __name__ == "__main__":
    if sys.argv[2:] == ["http"]:
        serve_by_http()
    else:
        asyncio.run(serve_by_stdio())
