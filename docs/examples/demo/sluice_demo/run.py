"""One run of the demo, from the broker to the examined ledger; it stops everything that it started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.adapters.kafka.kafka_ledger import read_values, verify_ledger
from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine
from sluice.adapters.kafka.kafka_topics import create
from sluice.adapters.ledger_reruns import rerun_all
from sluice.bootstrap.ledger_reading import count_gate
from sluice.bootstrap.parts import build_decision_settings
from sluice.broker import locate
from sluice.broker.handle import find_free_ports
from sluice.broker.local import Layout, launch
from sluice.broker.secured import BrokerSecurity, draw_passwords
from sluice.client.kafka_lines import thin_out_kafka_lines
from sluice.core.reports.ledger_values import ALARM, DECISION, REPORTED, LedgerValues
from sluice.core.reports.report import build_quality_report
from sluice.core.reports.report_tally import QualityTally
from sluice.core.rerun.rerun_result import RerunTally
from sluice.secrets.value_keys import make_value_key, write_value_key
from sluice.settings.reader import load_settings
from sluice_demo import run_location
from sluice_demo.material import TENANT
from sluice_demo.run_gateway import leave_waiting, start_gateway
from sluice_demo.run_location import RunLocation, start_worker
from sluice_demo.talk import Talk
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.access import ROLES
from sluice_topics.catalog import ALARMS, QUALITY_DECISIONS, REGISTRY, SESSION_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sluice.bootstrap.ledger_reading import GateCounts
    from sluice.broker.handle import Broker
    from sluice.broker.local import LocalBroker
    from sluice.broker.process_identity import ProcessIdentity
    from sluice.core.reports.report import QualityReport
    from sluice.verifier.ledger_findings import Report
    from sluice_demo.answers import DemoAnswers
    from sluice_demo.invoice import InvoicePayment
    from sluice_demo.judged_actions import DemoJudgement
    from sluice_demo.material import Material, RunOptions
    from sluice_demo.refunds import Refund
    from sluice_demo.run_gateway import RunGateway
    from sluice_demo.talk import Step

REPLICAS = 1
BROKER_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"


class Narrator(Protocol):
    """Tells the user what happens."""

    def step(self, what: str) -> AbstractContextManager[Step]:
        """A step that takes as long as the context."""


@dataclass(frozen=True, slots=True)
class Examined:
    """The ledger, read again: verified, every decision executed again, memories and retrievals counted."""

    report: Report
    reruns: RerunTally
    memories: GateCounts
    quality: QualityReport


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run."""

    location: RunLocation
    worker: ProcessIdentity
    material: Material
    answers: DemoAnswers
    refunds: Sequence[Refund]
    judged: Sequence[DemoJudgement]
    payments: Sequence[InvoicePayment]
    examined: Examined
    gateway: RunGateway | None = None

    @property
    def well(self) -> bool:
        """Every input was answered once, no item was shown without a decision, no memory is held any more, a
        guarded tool ran once if a person approved it and otherwise not at all, the invoice's supplier was
        paid and nobody else, the ledger is intact, its counts are the worker's, and every decision came out
        the same again.
        """
        answers, examined = self.answers, self.examined
        answered = not (
            answers.unanswered or answers.answered_twice or answers.quarantined or answers.unfounded
        )
        guarded = bool(self.refunds) and all(refund.well for refund in self.refunds)
        guarded = guarded and len(self.judged) == len(self.material.judged)
        guarded = guarded and bool(self.payments) and all(payment.well for payment in self.payments)
        return (
            answered
            and guarded
            and examined.report.intact
            and examined.memories.equal
            and examined.reruns.all_identical
        )


def perform(options: RunOptions, material: Material, narrator: Narrator) -> Result:
    """The whole run. What it started is stopped at its end, unless `keep` and it went well.

    Raises BrokerError, KafkaUnreachable, KafkaTopicError, WorkerError; the folder of the run then stays.
    """
    folder = options.home / options.run
    folder.mkdir(parents=True)
    try:
        result = _perform(options, folder, material, narrator)
    except KeyboardInterrupt:
        shutil.rmtree(folder)
        raise
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    if result.well and not options.keep:
        shutil.rmtree(folder)
    return result


def _perform(options: RunOptions, folder: Path, material: Material, narrator: Narrator) -> Result:
    with ExitStack() as started:
        broker = _start_broker(options, folder, narrator, started)
        thin_out_kafka_lines(broker.bootstrap_servers)
        keys = Path(tempfile.mkdtemp(prefix=f"{options.run}-keys-"))
        started.callback(shutil.rmtree, keys)
        location = RunLocation(
            options.run,
            folder,
            broker.bootstrap_servers,
            options.trust.root_key,
            keys,
            options.trust.installation,
            getattr(broker, "security", None),
        )
        _lay_out(location, options, material, narrator)
        with narrator.step("Worker") as step:
            worker = start_worker(location, options.environment)
            started.callback(_register_stop, narrator, "Stop worker", worker.stop)
            worker.wait_until_ready()
            step.say(f"process {worker.identity.pid} decides")
        with narrator.step("Inputs") as step:
            talk = Talk(location, material, options, step, worker)
            answers = asyncio.run(talk.run())
            step.say(f"{answers.published} inputs published, {answers.answered} answered")
        examined = examine(location, narrator)
        result = Result(location, worker.identity, material, answers, *talk.list_shown(), examined)
        if options.keep and result.well:
            if broker.kind != "external":
                locate.remember(options.home, broker)
            result = _leave_pages(result, options, narrator, started)
            started.pop_all()
    return result


def _lay_out(location: RunLocation, options: RunOptions, material: Material, narrator: Narrator) -> None:
    """Topics and policy."""
    with narrator.step("Topics") as step:
        asyncio.run(location.set_rights())
        count = len(asyncio.run(create(location.connect("init"), location.layout, REPLICAS)))
        step.say(f"{count} under the prefix {location.prefix}, {location.layout.partitions} partitions each")
    with narrator.step("Policy") as step:
        options.trust.write(location.keys)
        write_value_key(location.values_key, make_value_key())
        people = [options.trust.make_delegate([TENANT])] if options.keep else []
        asyncio.run(
            publish_policy(location.connect("policy-owner"), location.prefix, [*material.policy, *people])
        )
        entries = sum(topic == REGISTRY for topic, _, _ in material.policy)
        step.say(f"four bundles and {entries} generated entries, signed with this run's own keys")


def _leave_pages(result: Result, options: RunOptions, narrator: Narrator, started: ExitStack) -> Result:
    """Start a gateway whose pages show inputs that wait, and remember what goes on running."""
    location = result.location
    with narrator.step("Pages") as step:
        gateway = start_gateway(location, options.environment)
        started.callback(gateway.stop)
        count = asyncio.run(leave_waiting(location, result.material, result.answers, options))
        step.say(f"process {gateway.identity.pid} shows {count} inputs that wait for a person")
    stored_run = run_location.StoredRun(
        location.run, location.folder, location.keys, result.worker, gateway.identity
    )
    run_location.remember(options.home, stored_run)
    return replace(result, gateway=gateway)


def _start_broker(options: RunOptions, folder: Path, narrator: Narrator, started: ExitStack) -> Broker:
    with narrator.step("Broker") as step:
        if options.secured:
            secured = _launch_secured(folder)
            started.callback(_register_stop, narrator, "Stop broker", secured.close)
            step.say(
                f"{secured.bootstrap_servers}, started for this run: TLS, a login and ACLs for each role"
            )
            return secured
        running = options.environment.get(BROKER_VARIABLE)
        status = None if running else locate.read_status(options.broker_home, None)
        if status is not None and status.answers and status.logins is None:
            running = status.bootstrap_servers
        broker = locate.find_broker(running or None, folder / "kafka")
        if broker.kind == "external":
            where = "was there already; the demo's topics will stay on it"
        else:
            where = f"{broker.kind}, started for this run"
            started.callback(_register_stop, narrator, "Stop broker", broker.close)
        step.say(f"{broker.bootstrap_servers}, {where}")
    return broker


def _launch_secured(folder: Path) -> LocalBroker:
    *_, tls_port = find_free_ports(3)  # `launch` takes the two before
    work = folder / "kafka"
    security = BrokerSecurity(work / "tls", tls_port, draw_passwords(*ROLES))
    return launch(Layout(work, work / "data", locate.JARS), security=security)


def _register_stop(narrator: Narrator, what: str, stop: Callable[[], None]) -> None:
    with ignore_signals(), narrator.step(what):
        stop()


@contextmanager
def ignore_signals() -> Iterator[None]:
    """A second Ctrl-C, or a SIGTERM, does nothing in here. Main thread only, as signals are."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def examine(location: RunLocation, narrator: Narrator) -> Examined:
    """Read the ledger. Raises KafkaUnreachable and UnknownTopics."""
    with narrator.step("Ledger") as step:
        report = asyncio.run(verify_ledger(location.connect("auditor"), location.prefix))
        step.say(f"{report.records} records read and verified")
    with narrator.step("Rerun") as step:
        reruns = asyncio.run(_rerun(location))
        step.say(f"{reruns.counts['identical']} of {reruns.total} decisions executed again, identical")
    with narrator.step("Reports") as step:
        names = {topic.name: real for real, topic in location.layout.topics().items()}
        memories = asyncio.run(count_gate(KafkaQuarantine(location.connect("auditor"), names), recount=True))
        quality = asyncio.run(_report_quality(location))
        step.say("memories counted live and from the ledger, retrievals from the ledger")
    return Examined(report, reruns, memories, quality)


async def _rerun(location: RunLocation) -> RerunTally:
    kafka = KafkaEvidence(location.connect("auditor"), location.prefix)
    of = build_decision_settings(load_settings(environment=location.build_worker_environment(os.environ)), {})
    tally = RerunTally()
    async for rerun in rerun_all(kafka, of):
        tally.take([rerun])
    return tally


async def _report_quality(location: RunLocation) -> QualityReport:
    """Report the quality of all tenants and days, from the ledger alone."""
    tally = QualityTally()
    values = LedgerValues(
        {DECISION: tally.count_decision, REPORTED: tally.count_report, ALARM: tally.count_alarm}
    )
    topics = {f"{location.prefix}{name}": name for name in (QUALITY_DECISIONS, SESSION_EVENTS, ALARMS)}
    await read_values(location.connect("auditor"), topics, values.take)
    source = f"the topics {location.prefix}gate.* at {location.bootstrap_servers}"
    return build_quality_report(tally, values.basis(source))
