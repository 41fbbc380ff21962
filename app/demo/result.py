"""What came of a run, and what the ledger on its broker says when everything is over."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.adapters.kafka.kafka_evidence import KafkaEvidence
from app.adapters.kafka.kafka_ledger import read_values, verify_ledger
from app.adapters.kafka.kafka_quarantine import KafkaQuarantine
from app.adapters.kafka.kafka_rerun import rerun_all
from app.bootstrap import build_installation
from app.core.reports.ledger_values import ALARM, DECISION, REPORTED, LedgerValues
from app.core.reports.memory_recount import differences, summed
from app.core.reports.report import quality_report
from app.core.reports.report_tally import QualityTally
from app.core.rerun.rerun_result import RerunTally
from app.core.state.statistics import NOTHING, Statistics
from app.settings import load_settings
from app.stream.engine.partition_record import live_statistics
from topics.catalog import ALARMS, QUALITY_DECISIONS, SESSION_EVENTS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from app.broker.process import ProcessIdentity
    from app.core.reports.report import QualityReport
    from app.demo.answers import Answers
    from app.demo.inputs.material import Material
    from app.demo.place import Place
    from app.verifier.findings import Report

# Seed 003's statistics after a run: as the worker kept them, and whether the ledger says the same.


@dataclass(frozen=True, slots=True)
class Counted:
    """`live`: over all partitions, tenants and agents; `equal`: each of its parts is as the ledger has it."""

    live: Statistics
    equal: bool


async def counted(place: Place) -> Counted:
    """Read both from the broker. Raises KafkaUnreachable and UnknownTopics."""
    names = {topic.name: real for real, topic in place.layout.topics().items()}
    kafka = KafkaQuarantine(place.bootstrap_servers, names)
    live = await live_statistics(kafka.changelog())
    recount = await kafka.recount(live.sequences)
    whole = summed(live.counts, lambda _: None).get(None, NOTHING)
    return Counted(whole, not differences(live.counts, recount.counts))


# Seed 004's quality posture after a run, from the ledger alone.


async def quality_posture(place: Place) -> QualityReport:
    """Of all tenants and days. Raises KafkaUnreachable, UnknownTopics and NotADecisionError."""
    tally = QualityTally()
    values = LedgerValues({DECISION: tally.decision, REPORTED: tally.report, ALARM: tally.alarm})
    topics = [f"{place.prefix}{name}" for name in (QUALITY_DECISIONS, SESSION_EVENTS, ALARMS)]
    await read_values(place.bootstrap_servers, topics, values.take)
    return quality_report(
        tally, values.basis(f"the topics {place.prefix}gate.* at {place.bootstrap_servers}")
    )


# How a run tells of itself; `app/cli` has the teller.


class Step(Protocol):
    """A step under way."""

    def say(self, detail: str) -> None:
        """What came of it."""

    def progress(self, published: int, answered: int, total: int) -> None:
        """How far the publishing and the answering are."""


class Narrator(Protocol):
    """Tells whoever watches."""

    def step(self, what: str) -> AbstractContextManager[Step]:
        """A step that takes as long as the context."""


@dataclass(frozen=True, slots=True)
class Examined:
    """The ledger, read again: verified, every decision executed again, memories and retrievals counted."""

    report: Report
    reruns: RerunTally
    statistics: Counted
    quality: QualityReport


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run."""

    place: Place
    worker: ProcessIdentity
    material: Material
    answers: Answers
    examined: Examined

    @property
    def well(self) -> bool:
        """Every input was answered once, nothing was shown that nobody decided on, nothing is held any more,
        the ledger is intact, it has what the worker counted, and every decision came out the same again.
        """
        answers, found = self.answers, self.examined
        answered = not answers.unanswered and not answers.answered_twice and not answers.held
        told = found.report.intact and found.statistics.equal and found.reruns.all_identical
        return answered and not answers.unfounded and told


def examine(place: Place, narrator: Narrator) -> Examined:
    """Read the ledger. Raises KafkaUnreachable and UnknownTopics."""
    with narrator.step("Ledger") as step:
        report = asyncio.run(verify_ledger(place.bootstrap_servers, place.prefix))
        step.say(f"{report.records} records read and verified")
    with narrator.step("Rerun") as step:
        reruns = asyncio.run(_rerun(place))
        step.say(f"{reruns.counts['identical']} of {reruns.total} decisions executed again, identical")
    with narrator.step("Reports") as step:
        statistics = asyncio.run(counted(place))
        quality = asyncio.run(quality_posture(place))
        step.say("memories counted live and from the ledger, retrievals from the ledger")
    return Examined(report, reruns, statistics, quality)


async def _rerun(place: Place) -> RerunTally:
    kafka = KafkaEvidence(place.bootstrap_servers, place.prefix)
    of = build_installation(load_settings(environment=place.for_worker(os.environ)), {})
    tally = RerunTally()
    async for one in rerun_all(kafka, of):
        tally.take([one])
    return tally
