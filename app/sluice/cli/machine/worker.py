"""`sluice worker`: the policy decision point."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import uvloop
from aiokafka.errors import KafkaError

from sluice.adapters.kafka import kafka_topics
from sluice.adapters.kafka.kafka_read import KafkaRefused, KafkaUnreachable
from sluice.cli.machine.topics import build_layout
from sluice.cli.output import REFUSED, listen, log_to_stderr, require_settings, stop
from sluice.core.trust.in_force import PolicyError
from sluice.settings.reader import describe_missing_trust
from sluice.stream.process import EXIT_FAULT, EXIT_STOPPED, call_before_stop, end_process

if TYPE_CHECKING:
    from sluice.adapters.kafka.kafka_consumers import KafkaControlReader
    from sluice.bootstrap.parts import Additions
    from sluice.core.foundation.input_record import InputRecord
    from sluice.settings.reader import Settings
    from sluice_topics.layout import TopicDifference

log = logging.getLogger(__name__)

ASK_AGAIN_S = 0.5
GC_THRESHOLDS = (100_000, 50, 100)


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("worker")(worker)


Processes = Annotated[int, typer.Option(min=1, help="That many workers under one supervisor.")]
Supervised = Annotated[Path | None, typer.Option(hidden=True)]


def worker(processes: Processes = 1, supervised: Supervised = None) -> None:
    """Decide: read proposed actions and outcomes, publish verdicts, until stopped (Ctrl-C or SIGTERM).

    You may start as many workers as there are partitions; they share the sessions. A worker ends with
    status 3 after a broker fault and with 4 after another worker took over its partitions: start it again,
    nothing is lost. It ends with status 5 if the control topics lack policy that was in force: docs/policy.md
    says what to do. It refuses to start (2) if a setting, the bundle, the registry or a topic is wrong, and
    says which one. It waits for a broker that does not answer yet.

    With --processes it starts that many workers, starts one again that ends with 3 or 4 or of a signal, and
    ends with the status of one that a start would not help (2 and 5).
    """
    settings = require_settings()
    if processes == 1:
        run(settings, supervised=supervised)
        return
    if processes > settings.kafka.partitions:
        stop(
            f"--processes {processes}: there are {settings.kafka.partitions} partitions, one for each at most"
        )
    from sluice.cli.machine.worker_processes import build_supervisor, hold_names  # noqa: PLC0415 - one worker needs none

    log_to_stderr(settings)
    with hold_names(settings) as free:
        if not free:
            stop("another supervisor runs workers under the same names here; set worker.group_instance_id")
        built = build_supervisor(settings, processes)
        if built.listener is not None:
            listen(built.listener, "worker")
        status = built.supervisor.run()
    raise typer.Exit(status)


def run(settings: Settings, additions: Additions | None = None, supervised: Path | None = None) -> None:
    """Check the topics, build and run the worker in this process, and end the process. `supervised`: where a
    supervisor reads that it lives, and on which port it listens (SupervisedFiles)."""
    from sluice.bootstrap.observing import TracesUnavailable, observe_worker  # noqa: PLC0415 - most commands need no metrics
    from sluice.bootstrap.parts import Additions, build_control_reader, build_worker  # noqa: PLC0415 - importing Faust takes a second
    from sluice.observability.supervised_files import SupervisedFiles  # noqa: PLC0415 - as above
    from sluice.stream.engine import reclaim  # noqa: PLC0415 - so does aiokafka

    log_to_stderr(settings)
    logging.getLogger("aiokafka.producer.sender").addFilter(reclaim.is_news)
    if problem := describe_missing_trust(settings):
        stop(problem)
    added = additions or Additions()
    files = None if supervised is None else SupervisedFiles(supervised)
    try:
        observed = observe_worker(settings, None if files is None else files.beat)
    except TracesUnavailable as error:
        stop(str(error))
    if observed is not None:
        call_before_stop(observed.flush)
        if observed.listener is not None:
            listen(observed.listener, "worker")
            if files is not None:
                files.write_port(observed.listener.port)
        added = replace(added, observer=observed.observer)
    stop_unless_topics_fit(settings)
    records = _read_control_records(build_control_reader(settings))
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        app = build_worker(settings, records, added)
    except PolicyError as refused:
        stop(f"policy: {refused}")
    _collect_garbage_rarely()
    try:
        process = app.Worker(override_logging=False, redirect_stdouts=False, quiet=True)
        process.spinner = None  # it writes escape codes, to what is no terminal too
        process.execute_from_commandline()
    except SystemExit as ended:
        if ended.code:
            away = "the broker went away while the worker started, or refused it"
            log.error("the worker stops with status %d: %s", EXIT_FAULT, away)  # noqa: TRY400 - Faust has told it
            raise SystemExit(EXIT_FAULT) from ended
        log.info("the worker stops with status 0: it was asked to, and all that was decided is committed")
        end_process(EXIT_STOPPED)


def _read_control_records(reader: KafkaControlReader) -> list[InputRecord]:
    async def read() -> list[InputRecord]:
        try:
            return await reader.to_end()
        finally:
            await reader.close()

    try:
        return asyncio.run(read())
    except KafkaError as error:
        stop(f"the control topics cannot be read: {error}", EXIT_FAULT)


def _collect_garbage_rarely() -> None:
    """Decisions are trees that live for one batch: with CPython's thresholds the cycle collector walks all of
    them several times a batch, a third of the worker's time (docs/performance.md), and finds nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def stop_unless_topics_fit(settings: Settings) -> None:
    """End the command where a topic is missing or made otherwise; wait for a broker that is away."""
    differences = _await_differences(settings)
    if differences:
        stop("\n".join(_describe_difference(difference) for difference in differences))


def _describe_difference(difference: TopicDifference) -> str:
    why = f" ({difference.why})" if difference.why else ""
    what = f"{difference.topic}: {difference.what} is {difference.actual}, must be {difference.expected}"
    return f"{what}{why}. {difference.mend}"


def _await_differences(settings: Settings) -> list[TopicDifference]:
    """A broker may restart while workers run: if it is away, the worker asks again for `broker_wait_s`."""
    give_up_at = time.monotonic() + settings.worker.broker_wait_s
    while True:
        try:
            return asyncio.run(kafka_topics.check(settings.kafka.connection, build_layout(settings)))
        except kafka_topics.KafkaTopicError as error:
            stop(str(error))
        except KafkaRefused as refused:
            stop(REFUSED.format(refused))
        except KafkaUnreachable as away:
            if time.monotonic() >= give_up_at:
                stop(f"the broker does not answer: {away}", EXIT_FAULT)
            log.warning("waiting for the broker: %s", away)
            time.sleep(ASK_AGAIN_S)
