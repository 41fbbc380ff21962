"""`sluice broker`: a broker for this machine, in one command."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.broker import locate
from sluice.broker.handle import BrokerError
from sluice.broker.local import LocalBroker
from sluice.broker.secured import ADMIN
from sluice.cli.output import print_json
from sluice_topics.access import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator

cli = typer.Typer(
    name="broker",
    no_args_is_help=True,
    help="Start, find and stop a Kafka broker for this checkout. The first that works: the one "
    "KAFKA_BOOTSTRAP_SERVERS names; Docker; a local JVM (JDK 17 and Maven).",
)

Given = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        envvar="KAFKA_BOOTSTRAP_SERVERS",
        help="A broker that already runs (host:port); nothing is started.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(min=1024, max=65535, help=f"Port on loopback; {locate.DEFAULT_PORT} if not given."),
]
Data = Annotated[
    Path | None,
    typer.Option(file_okay=False, help="Folder for the local JVM's data; kept from one start to the next."),
]
Secured = Annotated[
    bool,
    typer.Option(
        "--secured",
        help="With TLS, a login for each role, and no rights but the admin's; on a local JVM, for trials.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@cli.command()
def start(
    bootstrap_servers: Given = None, port: Port = None, data: Data = None, *, secured: Secured = False
) -> None:
    """Start a broker, wait until it answers, print its address. If one runs already, say so; exit code 0."""
    options = locate.StartOptions(bootstrap_servers, port, data, ROLES if secured else None)
    with _explain_faults():
        broker, started_now = locate.start(locate.HOME, options)
    typer.echo(f"Broker ({broker.kind}) {'started' if started_now else 'runs already'}.", err=True)
    typer.echo(broker.bootstrap_servers)
    if isinstance(broker, LocalBroker) and broker.security is not None:
        _say_logins(broker.security.folder)
    elif broker.bootstrap_servers != f"127.0.0.1:{locate.DEFAULT_PORT}" and broker.kind != "external":
        typer.echo(
            f"For the other commands: export SLUICE_KAFKA__BOOTSTRAP_SERVERS={broker.bootstrap_servers}",
            err=True,
        )


def _say_logins(folder: Path) -> None:
    """Where each user's settings are, and what the admin does first."""
    for line in (
        f"Everyone logs in. {folder} has a settings file for {ADMIN} and one for each role.",
        "No role has rights yet. Give each that you use its own (docs/secured-kafka.md), such as",
        f"  export SLUICE_CONFIG={shlex.quote(str(folder / f'{ADMIN}.toml'))}",
        "  sluice topics acl --role init --principal User:init --apply",
    ):
        typer.echo(line, err=True)


@cli.command()
def stop() -> None:
    """Stop the broker that `start` started. It is no error if none runs."""
    with _explain_faults():
        address = locate.stop(locate.HOME)
    typer.echo(
        "No broker of this checkout runs." if address is None else f"Broker at {address} stopped.", err=True
    )


@cli.command()
def status(bootstrap_servers: Given = None, as_json: AsJson = False) -> None:
    """Show the broker's address. Exit codes: 0 it answers, 1 there is none or it does not answer."""
    with _explain_faults():
        broker_status = locate.read_status(locate.HOME, bootstrap_servers)
    if as_json:
        print_json(None if broker_status is None else asdict(broker_status))
    elif broker_status is None:
        typer.echo("No broker of this checkout runs; `sluice broker start` starts one.")
    else:
        _describe(broker_status)
    if broker_status is None or not broker_status.answers:
        raise typer.Exit(1)


def _describe(broker_status: locate.Status) -> None:
    answer = "answers" if broker_status.answers else "does NOT answer"
    typer.echo(f"{broker_status.bootstrap_servers}  {broker_status.kind}  {answer}")
    for name, value in (
        ("pid", broker_status.pid),
        ("data", broker_status.data),
        ("log", broker_status.log),
        ("logins", broker_status.logins),
    ):
        if value is not None:
            typer.echo(f"  {name:<7}{value}")


@contextmanager
def _explain_faults() -> Iterator[None]:
    try:
        yield
    except BrokerError as error:
        typer.echo(f"sluice broker: {error}", err=True)
        raise typer.Exit(1) from None
