"""`sluice demo`: broker, topics, worker, 400 real actions, 50 memories, 150 readings, and their fate."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics
from app.adapters.kafka.kafka_topics import KafkaTopicError
from app.broker import locate
from app.broker.handle import BrokerError
from app.cli.demo.demo_report import print_opening, print_result, summary_fields
from app.cli.output import WELL, WRONG, console, errors, print_json, shown, stop
from app.cli.quality.page import page
from app.demo import run_place
from app.demo.inputs.material import RunOptions, prepare
from app.demo.run import perform
from app.demo.run_place import WorkerError
from app.settings import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.reports.report import QualityReport
    from app.demo.run_place import KeptRun, RunPlace


_ACTION = (
    '{"action_id":"mine-1","agent_id":"sql_agent","session_id":"mine","toolName":"sql",'
    '"parameters":{"query":"DROP TABLE users"}}'
)


_RETRIEVAL = (
    '{"request_id":"mine-2","agent_id":"legal_consultant_agent","session_id":"mine","items":[{"item_id":"i1",'
    '"content_class":"legal_text","timestamp":"2020-01-01T00:00:00Z","confidence_score":0.9,'
    '"body":"The lease ends in May."}]}'
)
PAGE = "quality.html"


def write_page(place: RunPlace, quality: QualityReport, written_at: str) -> None:
    """The quality report as one page, beside the worker's log."""
    (place.folder / PAGE).write_text(page(quality, written_at), encoding="utf-8")


def say_how_to_use(teller: Console, place: RunPlace, flag_only: str) -> None:
    """Exact commands to watch, publish, promote the class in flag-only, and stop."""
    lines = ["", "Broker and worker go on. In another terminal, in this folder:", ""]
    lines += [f"  export {name}={quote(value)}" for name, value in place.for_commands().items()]
    lines += [
        "",
        "  .venv/bin/sluice watch gate.verdicts gate.escalations      # leave it running",
        f"  echo '{_ACTION}' \\",
        "    | .venv/bin/sluice publish -",
        "  .venv/bin/sluice ledger verify",
        "  .venv/bin/sluice rerun --sample 20",
        "  .venv/bin/sluice quarantine list",
        "  .venv/bin/sluice quarantine stats --recount",
        "  .venv/bin/sluice watch gate.memory.quality_decision        # leave it running",
        f"  echo '{_RETRIEVAL}' \\",
        "    | .venv/bin/sluice publish - --topic gate.memory.retrievals.proposed",
        "  .venv/bin/sluice quality report",
        f"  .venv/bin/sluice quality promote {flag_only}",
        "  .venv/bin/sluice bundle new mine mine.json                 # a bundle to start from",
        f"  .venv/bin/sluice bundle sign mine.json --key {place.keys}/owner.pem --out mine.dsse.json",
        "  .venv/bin/sluice bundle publish mine.dsse.json             # in force half a second later",
        "",
        f"The quality report as a page: {place.folder / PAGE}",
        f"The worker's log: {place.log}",
        "To stop worker and broker and remove their files: .venv/bin/sluice demo --stop",
    ]
    for line in lines:
        teller.print(line, markup=False, highlight=False, soft_wrap=True)


def say_stopped(stopped: KeptRun | None) -> None:
    """What `--stop` did."""
    if stopped is None:
        errors.print("No demo was left running.")
    else:
        console.print(f"{stopped.run} stopped, its files removed.", highlight=False)


_WIDTH = 16
_BAR = 36


class Narration:
    """Steps one after the other, each with what came of it and the seconds that it took."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, what: str) -> Iterator[_Moving]:
        """A step; on a terminal it moves while it lasts. One that fails is marked so."""
        begin = time.monotonic()
        with _bars(self._console) as bars:
            moving = _Moving(bars, what)
            try:
                yield moving
            except BaseException:
                self._line("[red]✗[/]", what, moving.detail or "not done", begin)
                raise
        self._line("[green]✓[/]", what, moving.detail, begin)

    def _line(self, mark: str, what: str, detail: str, begin: float) -> None:
        seconds = f"[dim]{time.monotonic() - begin:.1f} s[/]"
        text = f"{mark} [bold]{what:<{_WIDTH}}[/]{shown(detail)}{'  ' if detail else ''}{seconds}"
        self._console.print(text, highlight=False, soft_wrap=True)


class _Moving:
    """The step under way."""

    def __init__(self, bars: Progress, what: str) -> None:
        self.detail = ""
        self._bars = bars
        self._waiting = bars.add_task(f"{what} …", total=None)

    def say(self, detail: str) -> None:
        """What came of the step."""
        self.detail = detail

    def progress(self, published: int, answered: int, total: int) -> None:
        """How far the inputs are."""
        count = f"{published} published, {answered} answered of {total}"
        self._bars.update(self._waiting, completed=answered, total=total, description=count)


def _bars(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(_BAR), TimeElapsedColumn())
    # Not on a terminal nothing moves, and the step's own line is all there is.
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


HOME = ROOT / "build" / "demo"
CONFIG = ROOT / "config" / "demo"
BUNDLE = ROOT / "config" / "bundles" / "default.json"
QUALITY = ROOT / "config" / "quality" / "default.json"
INTERRUPTED = 130
WIDTH = 100
FAULTS = (BrokerError, KafkaUnreachable, KafkaTopicError, UnknownTopics, WorkerError, run_place.KeptError)


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("demo")(demo)


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave broker and worker running, and show how to use them.")
    ] = False,
    stop_kept: Annotated[bool, typer.Option("--stop", help="Only stop what --keep left running.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Show Sluice at work: 400 real tool calls, 50 texts to remember and 150 readings in, decisions out, the
    ledger verified.

    It uses the broker that KAFKA_BOOTSTRAP_SERVERS names, else this checkout's running one, else it starts
    one in Docker or on a local JVM. Then it makes its own topics, starts a worker, publishes and reads. The
    calls are real (config/demo); read items, row estimates, registry and outcomes are generated and marked
    as such. It stops everything that it started, also when you press Ctrl-C.

    Exit codes: 0 every input was answered and the ledger is intact, 1 this is not so, 2 could not do it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if stop_kept:
            say_stopped(run_place.stop(HOME))
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
    if keep and (left := run_place.recall(HOME)) is not None:
        stop(f"{left.run} is still there; `sluice demo --stop` stops it")
    wish = RunOptions(_run_name(), HOME, locate.HOME, CONFIG, BUNDLE, QUALITY, os.environ, keep, _now)
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
