"""`sluice mcp`: an MCP server whose every tool call goes through the gate, and the pins of its tools."""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import os
import sqlite3
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from aiokafka.errors import KafkaError
from rich.table import Table
from typer.core import TyperGroup

from sluice.adapters.mcp.pins import Pins, PinsError, digest_of, servers_in
from sluice.adapters.mcp.proxy_file import (
    DEFAULT_APPROVAL_S,
    Passed,
    ProxyFile,
    ProxyFileError,
    ProxyOptions,
    read_proxy_file,
)
from sluice.cli.output import WRONG, console, print_json, settings_or_stop, shown, stop, visible
from sluice.client import AsyncGateClient, ClientError, ClientOptions
from sluice.core.registry.keys import PublicKey, UnusableKeyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.registry.keys import SigningKey

PINS = Path("~/.sluice/mcp")
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
Folder = Annotated[
    Path, typer.Option("--pins", file_okay=False, help="Folder of what the servers' tools looked like.")
]


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
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Give the server this variable of the environment; repeatable."),
    ] = None,
) -> None:
    """Serve MCP on standard input and output, and call a tool only if the gate allows it.

    A denied call is a tool error that says which gate, why and what to do.

    Exit codes: 0 the input ended, 2 could not do it.

    Example: sluice mcp --agent my-agent --server files -- npx some-mcp-server /srv
    """
    try:
        told = ProxyFile() if config is None else read_proxy_file(config)
    except ProxyFileError as error:
        stop(str(error))
    agent, server = agent or told.agent, server or told.server
    if agent is None or server is None:
        stop("say who calls and what: --agent and --server, or a file with --config")
    if (url is None) == (not command):
        stop("give the command that starts the server after --, or its address with --url")
    try:
        from httpx2 import HTTPError  # noqa: PLC0415 - only to serve
        from mcp import MCPError, StdioServerParameters  # noqa: PLC0415 - an extra

        from sluice.adapters.mcp.proxy import serve  # noqa: PLC0415 - as above
    except ImportError:
        stop(_MISSING)
    logging.basicConfig(level=logging.WARNING, format="sluice mcp: %(message)s")
    settings = settings_or_stop()
    options = ProxyOptions(
        server,
        session or told.session or f"mcp-{uuid.uuid4().hex}",
        told.tools,
        told.results if results_as_retrievals else None,
        frozenset(passed or told.passed),
        approval_s or told.approval_s or DEFAULT_APPROVAL_S,
    )
    gate_options = ClientOptions(
        topic_prefix=settings.kafka.topic_prefix,
        deadline_s=told.deadline_s,
        agent_key=_pem(agent_key or _file(told.agent_key)),
        installation=settings.policy.installation,
        verdict_keys=(*settings.verdicts.public_keys, *(verdict_key or ())),
        journal=_file(told.journal),
    )
    target: Any = url
    if command:
        target = StdioServerParameters(
            command=command[0], args=command[1:], env=_environment(env or told.env)
        )
    accepted = _pins(pins, server, pins_key)
    try:
        gate = AsyncGateClient(settings.kafka.bootstrap_servers, agent, gate_options)
        asyncio.run(serve(gate, target, accepted, options))
    except (Exception, BaseExceptionGroup) as error:
        cause = _first(error)
        if isinstance(
            cause, (KafkaError, PinsError, ClientError, MCPError, HTTPError, OSError, sqlite3.Error)
        ):
            stop(f"{type(cause).__name__}: {cause}")
        raise


pins_cli = typer.Typer(
    name="pins", no_args_is_help=True, help="What servers' tools looked like, and what changed."
)
cli.add_typer(pins_cli)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


@pins_cli.command(name="list")
def list_pins(folder: Folder = PINS, as_json: AsJson = False) -> None:
    """List each server's tools: accepted, or held back because they are new or changed.

    Exit codes: 0 all are accepted, 1 some are held back, 2 could not do it.
    """
    rows = []
    for server in servers_in(folder.expanduser()):
        pins = Pins(folder.expanduser(), server)
        held, accepted = pins.held(), pins.recorded()
        rows += [
            (server, key, "accepted", digest_of(accepted[key])) for key in sorted(accepted.keys() - held)
        ]
        rows += [
            (server, key, "changed" if key in accepted else "new", digest_of(held[key]))
            for key in sorted(held)
        ]
    if as_json:
        print_json([dict(zip(("server", "name", "state", "digest"), row, strict=True)) for row in rows])
    else:
        table = Table("server", "what", "state", "digest", box=None, pad_edge=False)
        for row in rows:
            table.add_row(*map(shown, row))
        console.print(table)
    raise typer.Exit(WRONG if any(row[2] != "accepted" for row in rows) else 0)


@pins_cli.command()
def accept(
    server: Annotated[str, typer.Argument(help="The server's name.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="tool/NAME, or instructions; none: all.")
    ] = None,
    *,
    folder: Folder = PINS,
    key: Annotated[Path | None, typer.Option(help="PEM: sign the pins with it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show what is held back of a server, and after a yes let agents see it.

    Exit codes: 0 accepted, 1 nothing is held or the answer was no, 2 could not do it.
    """
    pins = _pins(folder, server, key)
    try:
        held, accepted = pins.held(), pins.accepted()
        keys = names or sorted(held)
        if not keys:
            stop(f"{server}: nothing is held back", WRONG)
        for one in keys:
            _print_change(one, accepted.get(one), held.get(one))
        if not yes and not typer.confirm(f"Shall agents see {', '.join(keys)} of {server} like this?"):
            raise typer.Exit(WRONG)
        pins.accept(keys)
    except PinsError as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write the pins: {error.strerror}")
    console.print(f"[green]accepted[/] {shown(', '.join(keys))} of {shown(server)}", highlight=False)


def _print_change(key: str, before: Any, after: Any) -> None:
    """Line by line, with what cannot be seen made visible."""
    console.print(f"[bold]{shown(key)}[/] {digest_of(after)}", highlight=False, soft_wrap=True)
    old, new = ([] if one is None else _lines(one) for one in (before, after))
    for line in difflib.unified_diff(old, new, "accepted", "held", lineterm="", n=2):
        console.print(visible(line), soft_wrap=True)


def _lines(definition: Any) -> list[str]:
    return json.dumps(definition, ensure_ascii=False, indent=2, sort_keys=True).split("\n")


def _pins(folder: Path, server: str, key: Path | None) -> Pins:
    try:
        return Pins(folder.expanduser(), server, None if key is None else _key(key))
    except PinsError as error:
        stop(str(error))


def _key(file: Path) -> SigningKey | PublicKey:
    """A private key, or the public half that `sluice keys new` writes."""
    if file.suffix != ".pub":
        return _private_key(file)
    try:
        return PublicKey.from_text(file.read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError, UnusableKeyError) as error:
        stop(f"{file}: no public key: {error}")


def _private_key(file: Path) -> SigningKey:
    from sluice.cli.policy.key_files import private_keys_or_stop  # noqa: PLC0415 - brings all of policy with it

    return private_keys_or_stop([file])[0]


def _file(written: str | None) -> Path | None:
    return None if written is None else Path(written).expanduser()


def _pem(file: Path | None) -> bytes | None:
    """The bytes of a private key that can be used."""
    if file is None:
        return None
    _private_key(file)
    return file.read_bytes()


def _environment(names: Iterable[str]) -> dict[str, str]:
    """Of the server: what is named, and the language. The SDK adds HOME, LOGNAME, PATH, SHELL, TERM, USER."""
    found = {name: os.environ[name] for name in _LANGUAGE if name in os.environ}
    for name in names:
        if name.upper().startswith(_OURS):
            stop(f"--env {name}: Sluice's own settings, which may hold keys, are not given to a server")
        if name not in os.environ:
            stop(f"--env {name}: it is not set")
        found[name] = os.environ[name]
    return found


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
