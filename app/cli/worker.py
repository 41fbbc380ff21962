"""`sluice worker`: the policy decision point."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from typing import TYPE_CHECKING

import uvloop

from app.cli.output import settings_or_stop, stop
from app.cli.topics import differences_or_stop

if TYPE_CHECKING:
    import typer

    from app.bootstrap import Additions
    from app.settings import Settings

GC_THRESHOLDS = (100_000, 50, 100)
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("worker")(worker)


def worker() -> None:
    """Decide: read proposed actions and outcomes, publish verdicts, until stopped (Ctrl-C or SIGTERM).

    Start up to as many as there are partitions; they share the sessions. It ends with status 3 on a broker
    fault and 4 when another worker took over its partitions: start it again, nothing is lost. It refuses to
    start (2) when a setting, the bundle, the registry or a topic is wrong, and says which.
    """
    run(settings_or_stop())


def run(settings: Settings, additions: Additions | None = None) -> None:
    """Check the topics, build and run the worker in this process; returns by SystemExit."""
    from app.bootstrap import PolicyError, build_worker  # noqa: PLC0415 - importing Faust takes a second

    _log_to_stderr(settings.logging.level)
    _stop_unless_topics_fit(settings)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        app = build_worker(settings, additions)
    except PolicyError as refused:
        stop(f"policy: {refused}")
    _collect_garbage_rarely()
    app.Worker(override_logging=False, redirect_stdouts=False, quiet=True).execute_from_commandline()


def _collect_garbage_rarely() -> None:
    """Decisions are trees that live for one batch: with CPython's thresholds the cycle collector walks all of
    them several times a batch, a third of the worker's time (docs/performance.md), and finds nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _stop_unless_topics_fit(settings: Settings) -> None:
    found = differences_or_stop(settings)
    if found:
        stop("\n".join(f"{d.topic}: {d.what} is {d.actual}, must be {d.expected}. {d.mend}" for d in found))


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(stream=sys.stderr, format=LOG_FORMAT, level=logging.WARNING)
    logging.getLogger("app").setLevel(level)
