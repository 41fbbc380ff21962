"""`sluice demo`: broker, topics, worker, 400 real actions, 50 memories, 150 readings, and their fate."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote
from string import Template
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from sluice.adapters.kafka.kafka_acls import AclRefused
from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics
from sluice.adapters.kafka.kafka_topics import KafkaTopicError
from sluice.broker import locate
from sluice.broker.handle import BrokerError
from sluice.cli.ledger.ledger import build_report_fields
from sluice.cli.output import WELL, WRONG, clean, console, errors, print_json, print_parts, stop
from sluice.cli.quality.page import write_page
from sluice.shipped import BUILD, SHIPPED_FILES
from sluice_demo.answers import list_settled, read_cause, tally_sessions
from sluice_demo.material import RunOptions, prepare
from sluice_demo.run import perform
from sluice_demo.run_gateway import NAME
from sluice_demo.run_location import StoredRunError, WorkerError, recall, stop_kept
from sluice_demo.tables import print_opening, print_result
from sluice_topics.catalog import ADMITTED, DEAD_LETTERS, MEMORY_DECISIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice_demo.run import Result
    from sluice_demo.run_gateway import RunGateway
    from sluice_demo.run_location import RunLocation


PAGE = "quality.html"


def say_how_to_use(teller: Console, location: RunLocation, gateway: RunGateway, flag_only: str) -> None:
    """The pages with their log-in, and exact commands to watch, publish, promote the class in flag-only, and
    stop."""
    template = Template((CONFIG / "kept.txt").read_text(encoding="utf-8"))
    exports = (
        f"  export {name}={quote(value)}" for name, value in location.build_command_environment().items()
    )
    text = template.substitute(
        exports="\n".join(exports),
        flag_only=flag_only,
        keys=location.keys,
        page=location.folder / PAGE,
        log=location.log,
        url=gateway.url,
        name=NAME,
        password=gateway.password,
    )
    teller.print(text, markup=False, highlight=False, soft_wrap=True, end="")


_WIDTH = 16
_BAR = 36


class Narration:
    """Steps one after the other, each with what came of it and the seconds that it took."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, what: str) -> Iterator[_Moving]:
        """A step; on a terminal it moves while it lasts. One that fails is marked so."""
        begin, failed = time.monotonic(), True
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(_BAR), TimeElapsedColumn()
        # Not on a terminal nothing moves, and the step's own line is all there is.
        disable = not self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=disable) as bars:
            moving = _Moving(bars, bars.add_task(f"{what} …", total=None))
            try:
                yield moving
                failed = False
            finally:
                mark = "[red]✗[/]" if failed else "[green]✓[/]"
                detail = clean(moving.detail or ("not done" if failed else ""))
                seconds = f"[dim]{time.monotonic() - begin:.1f} s[/]"
                text = f"{mark} [bold]{what:<{_WIDTH}}[/]{detail}{'  ' if detail else ''}{seconds}"
                self._console.print(text, highlight=False, soft_wrap=True)


@dataclass
class _Moving:
    """The step under way."""

    bars: Progress
    task: TaskID
    detail: str = ""

    def say(self, detail: str) -> None:
        """Say the result of the step."""
        self.detail = detail

    def show_progress(self, published: int, answered: int, total: int) -> None:
        """Show how far the inputs are."""
        count = f"{published} published, {answered} answered of {total}"
        self.bars.update(self.task, completed=answered, total=total, description=count)


HOME = BUILD / "demo"
CONFIG = SHIPPED_FILES / "demo"
BUNDLE = SHIPPED_FILES / "bundles" / "default.json"
QUALITY = SHIPPED_FILES / "quality" / "default.json"
INTERRUPTED = 130
WIDTH = 100
FAULTS = (
    AclRefused,
    BrokerError,
    KafkaUnreachable,
    KafkaTopicError,
    UnknownTopics,
    WorkerError,
    StoredRunError,
)


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("demo")(demo)


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave broker and worker running, and show how to use them.")
    ] = False,
    stop_only: Annotated[bool, typer.Option("--stop", help="Only stop what --keep left running.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    secured: Annotated[
        bool,
        typer.Option("--secured", help="On a broker with TLS, logins, and ACLs for each role."),
    ] = False,
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
        if stop_only:
            stopped = stop_kept(HOME)
            description = (
                "No demo was left running."
                if stopped is None
                else f"{stopped.run} stopped, its files removed."
            )
            (errors if stopped is None else console).print(description, highlight=False)
            return
        if secured and keep:
            stop("the broker of --secured ends with the run: leave --keep out")
        well = _run(keep=keep, json=json, secured=secured)
    except FAULTS as fault:
        stop(str(fault))
    except KeyboardInterrupt:
        errors.print("\nInterrupted; what was started is stopped.")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(WELL if well else WRONG)


def _run(*, keep: bool, json: bool, secured: bool) -> bool:
    begin = time.monotonic()
    if keep and (left := recall(HOME)) is not None:
        stop(f"{left.run} is still there; `sluice demo --stop` stops it")
    options = RunOptions(
        *(_make_run_name(), HOME, locate.HOME, CONFIG, BUNDLE, QUALITY, os.environ, keep, _read_clock),
        secured=secured,
    )
    material = prepare(options)
    teller = errors if json else _make_screen()
    print_opening(teller, material)
    result = perform(options, material, Narration(teller))
    seconds = time.monotonic() - begin
    if json:
        print_json(build_summary(result, seconds))
    else:
        print_result(teller, result)
        print_parts(("", write_sentence(result, seconds)), teller)
    if result.gateway is not None:
        html = write_page(result.examined.quality, _read_clock())
        (result.location.folder / PAGE).write_text(html, encoding="utf-8")
        say_how_to_use(
            teller, result.location, result.gateway, result.material.config.readings.rollout.flag_only
        )
    return result.well


def _make_screen() -> Console:
    """Make the console for the tables: a pipe or a file has no width of its own, and 80 columns are few."""
    return console if console.is_terminal else Console(width=WIDTH)


def _make_run_name() -> str:
    return f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"


def _read_clock() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_MOST_UNANSWERED = 5


def write_sentence(result: Result, seconds: float) -> str:
    """Whether the run went well, and if not, what did not."""
    answers, examined = result.answers, result.examined
    took = f"[dim]The demo took {seconds:.1f} s.[/]"
    if result.well:
        return (
            f"[bold green]✓ All {answers.published} inputs were answered, each once, the ledger is intact "
            f"({examined.report.records} records),\n"
            f"  and all {examined.reruns.total} decisions came out the same when executed again.[/]\n"
            f"{took}"
        )
    missing = [clean(planned.fields) for planned in answers.unanswered[:_MOST_UNANSWERED]]
    counts = (
        f"{len(answers.unanswered)} of {answers.published} inputs unanswered, "
        f"{answers.answered_twice} answered twice, {answers.quarantined} memories still held, "
        f"{answers.unfounded} items shown without a decision, "
        f"{sum(not refund.well for refund in result.refunds)} guarded calls that ran otherwise than "
        f"approved, {sum(not payment.well for payment in result.payments)} payments of the invoice that came "
        f"out otherwise, the ledger {'intact' if examined.report.intact else 'not intact'}, "
        f"{examined.reruns.counts['identical']} of {examined.reruns.total} reruns identical, "
        f"statistics {'equal' if examined.memories.equal else 'not equal'}."
    )
    notice = f"Kept for you to look at: {result.location.folder}. {took}"
    return "\n".join([f"[bold red]Not well:[/] {counts}", *missing, notice])


GENERATED = "row estimates, sessions, registry, outcomes, unreadable records, memory metadata, reviews, "
GENERATED += "retrievals, reports of stores, overrides"
"""What does not come from the panel."""


def build_summary(result: Result, seconds: float) -> dict[str, Any]:
    """Everything as JSON; `generated` names what is not the panel's, `unfounded` counts items that were shown
    without a decision."""
    answers, examined = result.answers, result.examined
    causes = Counter(read_cause(answered.body)[:3] for answered in answers.iterate(VERDICTS))
    return {
        "well": result.well,
        "run": result.location.run,
        "generated": GENERATED.split(", "),
        "inputs": answers.published,
        "answered": answers.answered,
        "unanswered": [planned.fields for planned in answers.unanswered],
        "verdicts": [
            {"verdict": verdict, "gate": gate, "reason": kind, "count": times}
            for (verdict, gate, kind), times in causes.most_common()
        ],
        "sessions": {
            session.session_id: {
                "aggregateRowsAffected": session.rows,
                "aggregateActionCount": session.actions,
            }
            for session in tally_sessions(answers)
        },
        "escalations": len(answers.escalations),
        "endings": Counter(ending.get("decision", "expired") for ending in answers.endings.values()),
        "guarded": [refund._asdict() for refund in result.refunds],
        "judged": [judgement._asdict() for judgement in result.judged],
        "invoice": [payment._asdict() for payment in result.payments],
        "settled": len(list_settled(answers)),
        "dead_letters": [
            {"code": answered.body["code"], "path": answered.body["path"]}
            for answered in answers.iterate(DEAD_LETTERS)
        ],
        "memory": {
            "decisions": Counter(answered.body["action"] for answered in answers.iterate(MEMORY_DECISIONS)),
            "admitted": len(answers.bodies[ADMITTED]),
            "statistics": examined.memories.overall.fields(),
            "recount_equal": examined.memories.equal,
        },
        "retrievals": {
            "readings": sum(1 for _ in answers.iterate_retrievals()),
            "unfounded": answers.unfounded,
            "escalations": len(answers.item_escalations),
            "quality": examined.quality.fields(),
        },
        "ledger": build_report_fields(examined.report),
        "reruns": examined.reruns.by_kind,
        "not_identical": examined.reruns.list_kept_fields(),
        "seconds": round(seconds, 1),
    }
