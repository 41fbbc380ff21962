"""One run of the demo, from the broker to the examined ledger; it stops everything that it started."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.adapters.kafka.kafka_evidence import KafkaEvidence
from app.adapters.kafka.kafka_ledger import read_values, verify_ledger
from app.adapters.kafka.kafka_publish import publish
from app.adapters.kafka.kafka_quarantine import KafkaQuarantine
from app.adapters.kafka.kafka_read import open_reader
from app.adapters.kafka.kafka_rerun import rerun_all
from app.adapters.kafka.kafka_topics import create
from app.bootstrap import build_installation
from app.broker import locate
from app.cli.demo import run_place
from app.cli.demo.demo_answers import TOPICS, Answers
from app.cli.demo.follow_ups import make_approvals, make_outcomes, make_reports, make_reviews, override_items
from app.cli.demo.run_place import RunPlace, start_worker
from app.cli.demo.throwaway_trust import publish_policy
from app.cli.ledger.quarantine import count_gate
from app.core.reports.ledger_values import ALARM, DECISION, REPORTED, LedgerValues
from app.core.reports.report import quality_report
from app.core.reports.report_tally import QualityTally
from app.core.rerun.rerun_result import RerunTally
from app.settings import load_settings
from topics.catalog import ALARMS, BY_NAME, QUALITY_DECISIONS, REGISTRY, SESSION_EVENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from app.adapters.kafka.kafka_read import StoredRecord
    from app.broker.handle import Broker
    from app.broker.process_identity import ProcessIdentity
    from app.cli.demo.material import Material, Planned, RunOptions
    from app.cli.demo.run_place import Worker
    from app.cli.ledger.quarantine import GateCounts
    from app.core.reports.report import QualityReport
    from app.verifier.ledger_findings import Report

PATIENCE_S = 30.0
"""How long no new answer may come before the rest counts as unanswered."""
REPLICAS = 1
BROKER_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"


class Step(Protocol):
    """A step under way."""

    def say(self, detail: str) -> None:
        """What came of it."""

    def progress(self, published: int, answered: int, total: int) -> None:
        """How far the publishing and the answering are."""


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
    """What came of a run."""

    place: RunPlace
    worker: ProcessIdentity
    material: Material
    answers: Answers
    examined: Examined

    @property
    def well(self) -> bool:
        """Every input was answered once, no item was shown without a decision, no memory is held any more,
        the ledger is intact, its counts are the worker's, and every decision came out the same again.
        """
        answers, found = self.answers, self.examined
        answered = not (answers.unanswered or answers.answered_twice or answers.held or answers.unfounded)
        return answered and found.report.intact and found.memories.equal and found.reruns.all_identical


def perform(wish: RunOptions, material: Material, narrator: Narrator) -> Result:
    """The whole run. What it started is stopped at its end, unless `keep` and it went well.

    Raises BrokerError, KafkaUnreachable, KafkaTopicError, WorkerError; the folder of the run then stays.
    """
    folder = wish.home / wish.run
    folder.mkdir(parents=True)
    try:
        result = _performed(wish, folder, material, narrator)
    except KeyboardInterrupt:
        shutil.rmtree(folder)
        raise
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    if result.well and not wish.keep:
        shutil.rmtree(folder)
    return result


def _performed(wish: RunOptions, folder: Path, material: Material, narrator: Narrator) -> Result:
    with ExitStack() as started:
        broker = _broker(wish, folder, narrator, started)
        keys = Path(tempfile.mkdtemp(prefix=f"{wish.run}-keys-"))
        started.callback(shutil.rmtree, keys)
        place = RunPlace(wish.run, folder, broker.bootstrap_servers, wish.trust.root_key, keys)
        with narrator.step("Topics") as step:
            count = len(asyncio.run(create(place.bootstrap_servers, place.layout, REPLICAS)))
            step.say(f"{count} under the prefix {place.prefix}, {place.layout.partitions} partitions each")
        with narrator.step("Policy") as step:
            wish.trust.write(place.keys)
            asyncio.run(publish_policy(place.bootstrap_servers, place.prefix, material.policy))
            entries = sum(topic == REGISTRY for topic, _, _ in material.policy)
            step.say(f"two bundles and {entries} generated entries, signed with this run's own keys")
        with narrator.step("Worker") as step:
            worker = start_worker(place, wish.environment)
            started.callback(_stopped, narrator, "Stop worker", worker.stop)
            worker.wait_ready()
            step.say(f"process {worker.identity.pid} decides")
        with narrator.step("Inputs") as step:
            answers = asyncio.run(Talk(place, material, wish, step, worker).hold())
            step.say(f"{answers.published} inputs published, {answers.answered} answered")
        result = Result(place, worker.identity, material, answers, examine(place, narrator))
        if wish.keep and result.well:
            if broker.kind != "external":
                locate.remember(wish.home, broker)
            kept = run_place.KeptRun(place.run, place.folder, place.keys, worker.identity)
            run_place.remember(wish.home, kept)
            started.pop_all()
    return result


def _broker(wish: RunOptions, folder: Path, narrator: Narrator, started: ExitStack) -> Broker:
    with narrator.step("Broker") as step:
        running = wish.environment.get(BROKER_VARIABLE)
        found = None if running else locate.status(wish.broker_home, None)
        if found is not None and found.answers:
            running = found.bootstrap_servers
        broker = locate.find_broker(running or None, folder / "kafka")
        if broker.kind == "external":
            where = "was there already; the demo's topics will stay on it"
        else:
            where = f"{broker.kind}, started for this run"
            started.callback(_stopped, narrator, "Stop broker", broker.close)
        step.say(f"{broker.bootstrap_servers}, {where}")
    return broker


def _stopped(narrator: Narrator, what: str, stop: Callable[[], None]) -> None:
    with undisturbed(), narrator.step(what):
        stop()


@contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C, or a SIGTERM, does nothing in here. Main thread only, as signals are."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Talk:
    """A run's traffic: it publishes inputs and reads the ledger in between."""

    def __init__(
        self, place: RunPlace, material: Material, wish: RunOptions, step: Step, worker: Worker
    ) -> None:
        self._place, self._material, self._wish = place, material, wish
        self._step, self._worker = step, worker
        self._answers = Answers(place.prefix, material.config.recipe.story.session)

    async def hold(self) -> Answers:
        """Publish what is planned; then outcomes, reviews, approvals, stores' reports and signed overrides;
        wait until what nobody answered has expired; then ask again for what was denied.

        Returns also when answers stay away: see `Answers.unanswered`.
        """
        config, now, trust, answers = self._material.config, self._wish.now, self._wish.trust, self._answers
        recipe, place = config.recipe, self._place
        names = [f"{place.prefix}{name}" for name in TOPICS]
        async with open_reader(place.bootstrap_servers, names, "beginning") as reader:
            batches = reader.follow(None)
            await self._exchange(self._material.opening, batches)
            await self._exchange(self._material.plan, batches)
            overrides = override_items(answers, config.readings.story.override, now())
            await publish_policy(place.bootstrap_servers, place.prefix, trust.overrides(overrides.entries))
            in_force = time.monotonic() + recipe.reload_s
            rng = random.Random(recipe.seed)  # noqa: S311 - seeded
            follow_ups = [
                *make_outcomes(answers, recipe, rng, now()),
                *make_reviews(answers, config.memories, trust.reviewer, now()),
                *make_approvals(answers, recipe.approvals, trust, now()),
                *make_reports(answers, config.readings.story, now()),
            ]
            await self._exchange(follow_ups, batches)
            expired = time.monotonic() + recipe.review_s + PATIENCE_S
            await self._read(batches, lambda: answers.held > 0 and time.monotonic() < expired)
            await self._read(batches, lambda: time.monotonic() < in_force)
            await self._exchange(overrides.again, batches)
        return answers

    async def _exchange(self, plan: Sequence[Planned], batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Publish in bursts, reading in between; then read until all is answered or nothing comes."""
        answers, burst = self._answers, self._material.config.recipe.burst
        total = answers.published + len(plan)
        for start in range(0, len(plan), burst):
            await self._publish(plan[start : start + burst])
            answers.take(await anext(batches))
            self._step.progress(answers.published, answers.answered, total)
        answered, last = answers.answered, time.monotonic()

        def waiting() -> bool:
            nonlocal answered, last
            if answers.answered > answered:
                answered, last = answers.answered, time.monotonic()
            self._step.progress(answers.published, answered, total)
            return bool(answers.unanswered) and time.monotonic() < last + PATIENCE_S

        await self._read(batches, waiting)

    async def _read(self, batches: AsyncIterator[list[StoredRecord]], waiting: Callable[[], bool]) -> None:
        """Read as long as this is worth waiting for. Raises WorkerError when the worker has ended."""
        while waiting():
            self._worker.check()
            self._answers.take(await anext(batches))

    async def _publish(self, burst: Sequence[Planned]) -> None:
        """Each topic's records in order, the topics side by side."""

        async def publish_to(name: str) -> None:
            planned = [one for one in burst if one.topic == name]
            topic, most = f"{self._place.prefix}{name}", BY_NAME[name].max_message_bytes
            records = [one.outgoing for one in planned]
            placed = await publish(self._place.bootstrap_servers, topic, records, max_request_bytes=most)
            self._answers.expect(planned, placed)

        await asyncio.gather(*map(publish_to, {one.topic for one in burst}))


def examine(place: RunPlace, narrator: Narrator) -> Examined:
    """Read the ledger. Raises KafkaUnreachable and UnknownTopics."""
    with narrator.step("Ledger") as step:
        report = asyncio.run(verify_ledger(place.bootstrap_servers, place.prefix))
        step.say(f"{report.records} records read and verified")
    with narrator.step("Rerun") as step:
        reruns = asyncio.run(_rerun(place))
        step.say(f"{reruns.counts['identical']} of {reruns.total} decisions executed again, identical")
    with narrator.step("Reports") as step:
        names = {topic.name: real for real, topic in place.layout.topics().items()}
        memories = asyncio.run(count_gate(KafkaQuarantine(place.bootstrap_servers, names), recount=True))
        quality = asyncio.run(_quality(place))
        step.say("memories counted live and from the ledger, retrievals from the ledger")
    return Examined(report, reruns, memories, quality)


async def _rerun(place: RunPlace) -> RerunTally:
    kafka = KafkaEvidence(place.bootstrap_servers, place.prefix)
    of = build_installation(load_settings(environment=place.for_worker(os.environ)), {})
    tally = RerunTally()
    async for one in rerun_all(kafka, of):
        tally.take([one])
    return tally


async def _quality(place: RunPlace) -> QualityReport:
    """Of all tenants and days, from the ledger alone."""
    tally = QualityTally()
    values = LedgerValues({DECISION: tally.decision, REPORTED: tally.report, ALARM: tally.alarm})
    topics = [f"{place.prefix}{name}" for name in (QUALITY_DECISIONS, SESSION_EVENTS, ALARMS)]
    await read_values(place.bootstrap_servers, topics, values.take)
    source = f"the topics {place.prefix}gate.* at {place.bootstrap_servers}"
    return quality_report(tally, values.basis(source))
