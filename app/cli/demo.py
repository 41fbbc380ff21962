"""`sluice demo`: broker, topics, worker, 400 real actions, 50 memories, 150 readings, and their fate."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from app.adapters.kafka_read import KafkaUnreachable, UnknownTopics
from app.adapters.kafka_topics import KafkaTopicError
from app.broker import locate
from app.broker.errors import BrokerError
from app.cli.demo_kept import say_how_to_use, say_stopped, write_page
from app.cli.demo_progress import Narration
from app.cli.demo_report import print_opening, print_result
from app.cli.demo_summary import summary_fields
from app.cli.output import WELL, WRONG, console, errors, print_json, stop
from app.demo import kept
from app.demo.material import Wish, prepare
from app.demo.run import perform
from app.demo.worker import WorkerError
from app.settings import ROOT

HOME = ROOT / "build" / "demo"
CONFIG = ROOT / "config" / "demo"
BUNDLE = ROOT / "config" / "bundles" / "default.json"
QUALITY = ROOT / "config" / "quality" / "default.json"
INTERRUPTED = 130
WIDTH = 100
FAULTS = (BrokerError, KafkaUnreachable, KafkaTopicError, UnknownTopics, WorkerError, kept.KeptError)


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("demo")(demo)


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave broker and worker running, and say how to use them.")
    ] = False,
    stop_kept: Annotated[
        bool, typer.Option("--stop", help="Stop what --keep left running, and nothing else.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Show Sluice at work: 400 real tool calls, 50 texts to remember and 150 readings in, decisions out, the
    ledger verified.

    Takes the broker that KAFKA_BOOTSTRAP_SERVERS names, else this checkout's running one, else starts one in
    Docker or on a local JVM; then makes topics of its own, starts a worker, publishes and reads. The calls
    are real (config/demo); what is read, row estimates, registry and outcomes are generated and said to be.
    Nothing it started stays, also when you press Ctrl-C.

    Exit codes: 0 every input was answered and the ledger is intact, 1 not so, 2 could not be done.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if stop_kept:
            say_stopped(kept.stop(HOME))
            return
        well = _run(keep=keep, json=json)
    except FAULTS as fault:
        stop(str(fault))
    except KeyboardInterrupt:
        errors.print("\nInterrupted; what was started is stopped.")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(WELL if well else WRONG)


def _run(*, keep: bool, json: bool) -> bool:
    begin = time.monotonic()
    if keep and (left := kept.recall(HOME)) is not None:
        stop(f"{left.run} is still there; `sluice demo --stop` stops it")
    wish = Wish(_run_name(), HOME, locate.HOME, CONFIG, BUNDLE, QUALITY, os.environ, keep, _now)
    material = prepare(wish)
    teller = errors if json else _screen()
    print_opening(teller, material)
    result = perform(wish, material, Narration(teller))
    seconds = time.monotonic() - begin
    if json:
        print_json(summary_fields(result, seconds))
    else:
        print_result(teller, result, seconds)
    if keep and result.well:
        write_page(result.place, result.examined.quality, _now())
        say_how_to_use(teller, result.place, result.material.library.rollout.flag_only)
    return result.well


def _screen() -> Console:
    """Where the tables go: a pipe or a file has no width of its own, and 80 columns are few for them."""
    return console if console.is_terminal else Console(width=WIDTH)


def _run_name() -> str:
    return f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
