"""`sluice mcp`: an MCP server whose every tool call goes through the gate, and the pins of its tools."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from aiokafka.errors import KafkaError
from typer.core import TyperGroup

from sluice.adapters.mcp.pins import PinsError
from sluice.adapters.mcp.proxy_file import (
    DEFAULT_APPROVAL_S,
    Passed,
    ProxyOptions,
)
from sluice.cli.machine.mcp_parts import (
    build_gate_options,
    build_parking,
    build_target,
    read_config,
    require_calling,
    require_door,
)
from sluice.cli.machine.mcp_pins import PINS, Folder, require_pins
from sluice.cli.machine.mcp_pins import cli as pins_cli
from sluice.cli.output import require_settings, stop
from sluice.client import AsyncGateClient, ClientError

if TYPE_CHECKING:
    from collections.abc import Coroutine


_MISSING = "this needs the MCP SDK: install the extra `mcp` (in a checkout: make tools)"


class _ProxyFirst(TyperGroup):
    """Arguments that begin with no verb are those of `run`: `sluice mcp --agent A -- COMMAND`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the verb that the user leaves out."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


cli = typer.Typer(
    name="mcp",
    cls=_ProxyFirst,
    no_args_is_help=True,
    help="""Stand before an MCP server: each call goes through the gate.

    Use it when an agent calls tools over MCP and its host cannot call the
    gate itself.

    sluice mcp [OPTIONS] -- COMMAND… starts the server; with --url it is
    reached by streamable HTTP. Put this command where an agent's host has
    the server's own: nothing else changes. `sluice mcp run --help` lists
    the options.""",
)
cli.add_typer(pins_cli)


_Url = Annotated[str | None, typer.Option(help="Reach the server by streamable HTTP instead.")]
_Config = Annotated[Path | None, typer.Option(help="TOML: agent, session, server, tools, results.")]
_Agent = Annotated[str | None, typer.Option(help="The agent's id in the registry.")]
_Session = Annotated[str | None, typer.Option(help="Session of the calls; without one, a new one.")]
_Task = Annotated[
    Path | None, typer.Option(help="A signed mandate, as `sluice mandate issue --out` wrote it.")
]
_Server = Annotated[str | None, typer.Option(help="Name of the server: tool T is SERVER.T in the registry.")]
_AgentKey = Annotated[
    Path | None, typer.Option(help="PEM: the agent's key, if its entry in the registry has keys.")
]
_PinsKey = Annotated[
    Path | None, typer.Option(help="PEM: pins are signed with it. NAME.pub: only what it signed is shown.")
]
_VerdictKeys = Annotated[
    list[str] | None,
    typer.Option(help="Public key, base64, that must have signed verdicts; beside verdicts.public_keys."),
]
_ApprovalS = Annotated[
    float | None, typer.Option(min=0.1, help="Seconds that a call waits for a person's agreement.")
]
_Results = Annotated[
    bool, typer.Option("--results-as-retrievals", help="Put what the server sends through the gate, too.")
]
_Passed = Annotated[
    list[Passed] | None, typer.Option("--pass", help="What is then not dropped; may be repeated.")
]
_Listen = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Serve by streamable HTTP, with a token.")
]
_TokenFile = Annotated[Path | None, typer.Option(help="The token that clients of --listen must send.")]
_Env = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Give the server this variable of the environment; repeatable."),
]


@cli.command(context_settings={"allow_interspersed_args": False})
def run(  # noqa: PLR0913 - the command's options
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND…", help="Starts the server.")
    ] = None,
    *,
    url: _Url = None,
    config: _Config = None,
    agent: _Agent = None,
    session: _Session = None,
    task: _Task = None,
    server: _Server = None,
    agent_key: _AgentKey = None,
    pins: Folder = PINS,
    pins_key: _PinsKey = None,
    verdict_key: _VerdictKeys = None,
    approval_s: _ApprovalS = None,
    results_as_retrievals: _Results = False,
    passed: _Passed = None,
    listen: _Listen = None,
    token_file: _TokenFile = None,
    env: _Env = None,
) -> None:
    """Serve MCP on standard input and output, and call a tool only if the gate allows it.

    A denied call is a tool error that says which gate, why and what to do.
    With --listen it serves at http://HOST:PORT/mcp until it is stopped.

    Exit codes: 0 the input ended or stopped, 2 could not do it.

    Example: sluice mcp --agent my-agent --server files -- npx some-mcp-server /srv
    """
    file_options = read_config(config)
    calling = require_calling(file_options, task, agent, session, server)
    if (url is None) == (not command):
        stop("give the command that starts the server after --, or its address with --url")
    _require_extra()
    logging.basicConfig(level=logging.WARNING, format="sluice mcp: %(message)s")
    settings = require_settings()
    options = ProxyOptions(
        calling.server,
        calling.session or f"mcp-{uuid.uuid4().hex}",
        file_options.tools,
        file_options.results if results_as_retrievals else None,
        frozenset(passed or file_options.passed),
        approval_s or file_options.approval_s or DEFAULT_APPROVAL_S,
        calling.mandate or None,
        build_parking(file_options, calling.agent, calling.session),
        frozenset(file_options.server_requests),
        file_options.answer_s,
    )
    gate_options = build_gate_options(settings, file_options, agent_key, verdict_key or ())
    door = require_door(file_options, listen, token_file)
    target = build_target(command, env, file_options) if command else url
    accepted = require_pins(pins, calling.server, pins_key)

    async def serve_proxy() -> None:
        from sluice.adapters.mcp.proxy import serve  # noqa: PLC0415 - only to serve

        gate = AsyncGateClient(settings.kafka.connection, calling.agent, gate_options)
        await serve(gate, target, accepted, options, door)

    _run_or_stop(serve_proxy())


def _require_extra() -> None:
    try:
        import sluice.adapters.mcp.proxy  # noqa: F401, PLC0415 - an extra, only to serve
    except ImportError:
        stop(_MISSING)


def _run_or_stop(serving: Coroutine[Any, Any, None]) -> None:
    """Serve; what gate, server or pins raise ends the command with its first cause."""
    from httpx2 import HTTPError  # noqa: PLC0415 - only to serve
    from mcp import MCPError  # noqa: PLC0415 - an extra

    expected = (KafkaError, PinsError, ClientError, MCPError, HTTPError, OSError, sqlite3.Error)
    try:
        asyncio.run(serving)
    except (Exception, BaseExceptionGroup) as error:
        cause = _find_first(error)
        if isinstance(cause, expected):
            stop(f"{type(cause).__name__}: {cause}")
        raise


def _find_first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
