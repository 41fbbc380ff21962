"""`sluice`: one verb per file of this folder; this one puts them together."""

from __future__ import annotations

import typer

from app.cli import (
    broker,
    bundle,
    decide,
    demo,
    evaluate,
    keys,
    ledger,
    publish,
    quality,
    quarantine,
    registry,
    rerun,
    topics,
    watch,
    worker,
)

cli = typer.Typer(
    name="sluice",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="""The gate on a Kafka stream that decides what AI agents may do, remember and read.

    A first look: sluice broker start, sluice topics create, sluice worker (leave it running), then in another
    terminal sluice watch gate.verdicts and sluice publish FILE. Settings: config/sluice.toml.
    Exit codes: 0 done, 1 the answer is no (differences, findings), 2 could not do it; of a worker also 3,
    stopped on a fault, and 4, another worker took over.""",
)
cli.add_typer(broker.cli, name="broker")
cli.add_typer(topics.cli, name="topics")
cli.add_typer(ledger.cli, name="ledger")
cli.add_typer(keys.cli, name="keys")
cli.add_typer(bundle.cli, name="bundle")
cli.add_typer(registry.cli, name="registry")
cli.add_typer(quality.cli, name="quality")
cli.add_typer(quarantine.cli, name="quarantine")
for verb in (demo, worker, publish, watch, decide, rerun, evaluate):
    verb.register(cli)


def main() -> None:
    """Entry point of the `sluice` command."""
    cli()
