"""`sluice mcp`: an MCP server whose every tool call goes through the gate, and the pins of its tools."""

from __future__ import annotations

import asyncio
import json
import logging
import os
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
    Parking,
    Passed,
    ProxyFile,
    ProxyFileError,
    ProxyOptions,
    read_proxy_file,
)
from sluice.cli.machine.mcp_pins import PINS, Folder, require_pins, require_private_key
from sluice.cli.machine.mcp_pins import cli as pins_cli
from sluice.cli.output import require_settings, stop
from sluice.client import AsyncGateClient, ClientError, ClientOptions
from sluice.secrets.value_keys import ValueKeyError, make_value_key, read_value_key, write_value_key

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from sluice.bootstrap.followed_freezes import FollowedFreezes
    from sluice.bootstrap.followed_sealing import FollowedSealing
    from sluice.settings.reader import Settings

_OURS = "SLUICE_"
_LANGUAGE = ("LANG", "LC_ALL", "LC_CTYPE")
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


@cli.command(context_settings={"allow_interspersed_args": False})
def run(  # noqa: PLR0913 - the command's options
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND…", help="Starts the server.")
    ] = None,
    *,
    url: Annotated[str | None, typer.Option(help="Reach the server by streamable HTTP instead.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML: agent, session, server, tools, results.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent's id in the registry.")] = None,
    session: Annotated[str | None, typer.Option(help="Session of the calls; without one, a new one.")] = None,
    task: Annotated[
        Path | None, typer.Option(help="A signed mandate, as `sluice mandate issue --out` wrote it.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="Name of the server: tool T is SERVER.T in the registry.")
    ] = None,
    agent_key: Annotated[
        Path | None, typer.Option(help="PEM: the agent's key, if its entry in the registry has keys.")
    ] = None,
    pins: Folder = PINS,
    pins_key: Annotated[
        Path | None,
        typer.Option(help="PEM: pins are signed with it. NAME.pub: only what it signed is shown."),
    ] = None,
    verdict_key: Annotated[
        list[str] | None,
        typer.Option(help="Public key, base64, that must have signed verdicts; beside verdicts.public_keys."),
    ] = None,
    approval_s: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds that a call waits for a person's agreement.")
    ] = None,
    results_as_retrievals: Annotated[
        bool, typer.Option("--results-as-retrievals", help="Put what the server sends through the gate, too.")
    ] = False,
    passed: Annotated[
        list[Passed] | None, typer.Option("--pass", help="What is then not dropped; may be repeated.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve by streamable HTTP, with a token.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="The token that clients of --listen must send.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Give the server this variable of the environment; repeatable."),
    ] = None,
) -> None:
    """Serve MCP on standard input and output, and call a tool only if the gate allows it.

    A denied call is a tool error that says which gate, why and what to do.
    With --listen it serves at http://HOST:PORT/mcp until it is stopped.

    Exit codes: 0 the input ended or stopped, 2 could not do it.

    Example: sluice mcp --agent my-agent --server files -- npx some-mcp-server /srv
    """
    try:
        file_options = ProxyFile() if config is None else read_proxy_file(config)
    except ProxyFileError as error:
        stop(str(error))
    mandate = _read_mandate(task or _resolve_file(file_options.task))
    session = session or file_options.session or mandate.get("session_id")
    agent = agent or file_options.agent or mandate.get("agent_id")
    server = server or file_options.server
    if mandate and (agent, session) != (mandate.get("agent_id"), mandate.get("session_id")):
        stop("--task is for another agent or session: leave --agent and --session out, or give its own")
    if agent is None or server is None:
        stop("say who calls and what: --agent and --server, or a file with --config")
    if (url is None) == (not command):
        stop("give the command that starts the server after --, or its address with --url")
    try:
        from mcp import StdioServerParameters  # noqa: PLC0415 - an extra

        from sluice.adapters.mcp.listening import read_door  # noqa: PLC0415 - only to serve
        from sluice.adapters.mcp.proxy import serve  # noqa: PLC0415 - only to serve
    except ImportError:
        stop(_MISSING)
    logging.basicConfig(level=logging.WARNING, format="sluice mcp: %(message)s")
    settings = require_settings()
    options = ProxyOptions(
        server,
        session or f"mcp-{uuid.uuid4().hex}",
        file_options.tools,
        file_options.results if results_as_retrievals else None,
        frozenset(passed or file_options.passed),
        approval_s or file_options.approval_s or DEFAULT_APPROVAL_S,
        mandate or None,
        _build_parking(file_options, agent, session),
        frozenset(file_options.server_requests),
        file_options.answer_s,
    )
    gate_options = _build_gate_options(settings, file_options, agent_key, verdict_key or ())
    listening, address = file_options.listen, listen or file_options.listen.address
    try:
        door = (
            None
            if address is None
            else read_door(address, listening, token_file or _resolve_file(listening.token_file))
        )
    except ProxyFileError as error:
        stop(str(error))
    target: Any = url
    if command:
        target = StdioServerParameters(
            command=command[0],
            args=command[1:],
            env=_select_environment(env or file_options.env, listening.token_env),
        )
    accepted = require_pins(pins, server, pins_key)

    async def serve_proxy() -> None:
        gate = AsyncGateClient(settings.kafka.connection, agent, gate_options)
        await serve(gate, target, accepted, options, door)

    _run_or_stop(serve_proxy())


def _build_gate_options(
    settings: Settings, file_options: ProxyFile, agent_key: Path | None, verdict_keys: Iterable[str]
) -> ClientOptions:
    return ClientOptions(
        topic_prefix=settings.kafka.topic_prefix,
        deadline_s=file_options.deadline_s,
        agent_key=_read_pem(agent_key or _resolve_file(file_options.agent_key)),
        installation=settings.policy.installation,
        verdict_keys=(*settings.verdicts.public_keys, *verdict_keys),
        journal=_resolve_file(file_options.journal),
        reported_by=file_options.reported_by,
        signing_key=_read_pem(_resolve_file(file_options.signing_key)),
        values_key=_read_values_key(_resolve_file(file_options.values_key) or settings.values.key_file),
        freezes=_follow_freezes(settings) if file_options.follow_freezes else None,
        sealing=_follow_sealing(settings),
    )


def _follow_sealing(settings: Settings) -> Callable[[], FollowedSealing] | None:
    if settings.sealing.master_key_file is None:
        return None
    from sluice.bootstrap.followed_sealing import follow_sealing  # noqa: PLC0415 - and with it the whole core
    from sluice.cli.policy.control_topics import require_roots  # noqa: PLC0415 - as above
    from sluice.core.trust.in_force import PolicyError  # noqa: PLC0415 - as above

    require_roots(settings)
    try:
        return follow_sealing(settings)
    except PolicyError as error:
        stop(str(error))


def _follow_freezes(settings: Settings) -> Callable[[], FollowedFreezes]:
    from sluice.bootstrap.followed_freezes import follow_freezes  # noqa: PLC0415 - and with it the whole core
    from sluice.cli.policy.control_topics import require_roots  # noqa: PLC0415 - as above

    require_roots(settings)
    policy = settings.policy
    retired = {key: round(at.timestamp() * 1000) for key, at in policy.retired_root_keys.items()}
    return follow_freezes(
        settings.kafka.connection,
        policy.root_keys,
        settings.build_audience(),
        retired_root_keys=retired,
        refresh_s=policy.refresh_s,
        max_lag_s=policy.max_lag_s,
    )


def _build_parking(file_options: ProxyFile, agent: str, session: str | None) -> Parking | None:
    """How calls are parked. A state outlives the proxy, so what it stands on must, too."""
    key = _resolve_file(file_options.parking_key)
    if key is None:
        return None
    if file_options.journal is None or session is None:
        stop(
            "parking_key needs a journal and a session that stay the same: `journal`, and `session` or a task"
        )
    try:
        if not key.exists():
            write_value_key(key, make_value_key())
        return Parking(read_value_key(key), agent, file_options.parked_s)
    except ValueKeyError as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write {key}: {error.strerror}")


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


def _resolve_file(written: str | None) -> Path | None:
    return None if written is None else Path(written).expanduser()


def _read_pem(file: Path | None) -> bytes | None:
    """The bytes of a private key that can be used."""
    if file is None:
        return None
    require_private_key(file)
    return file.read_bytes()


def _read_mandate(file: Path | None) -> dict[str, Any]:
    """The mandate in a file; {} where there is no file."""
    if file is None:
        return {}
    try:
        mandate = json.loads(file.expanduser().read_bytes())
    except OSError as error:
        stop(f"cannot read {file}: {error.strerror}")
    except ValueError as error:
        stop(f"{file} is no JSON: {error}")
    if not isinstance(mandate, dict) or "mandate_id" not in mandate or "session_id" not in mandate:
        stop(f"{file} is no mandate: `sluice mandate issue --out FILE` writes one")
    return mandate


def _read_values_key(file: Path | None) -> bytes | None:
    try:
        return None if file is None else read_value_key(file.expanduser())
    except ValueKeyError as error:
        stop(str(error))


def _select_environment(names: Iterable[str], token: str | None) -> dict[str, str]:
    """Select the server's environment: the variables that are named, and the language. The SDK adds HOME,
    LOGNAME, PATH, SHELL, TERM, USER."""
    environment = {name: os.environ[name] for name in _LANGUAGE if name in os.environ}
    for name in names:
        if name.upper().startswith(_OURS):
            stop(f"--env {name}: Sluice's own settings, which may hold keys, are not given to a server")
        if name == token:
            stop(f"--env {name}: the token of the proxy's clients is not given to a server")
        if name not in os.environ:
            stop(f"--env {name}: it is not set")
        environment[name] = os.environ[name]
    return environment


def _find_first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
