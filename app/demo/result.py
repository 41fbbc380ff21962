"""What came of a run, and what the ledger on its broker says when everything is over."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.adapters.kafka_evidence import KafkaEvidence
from app.adapters.kafka_ledger import verify_ledger
from app.adapters.kafka_rerun import rerun_all
from app.core.actions.stages import shipped_stage
from app.demo.posture import quality_posture
from app.demo.statistics import Counted, counted

if TYPE_CHECKING:
    from app.broker.process import ProcessIdentity
    from app.core.ledger.rerun_result import Kind, Status
    from app.core.retrieval.report import QualityReport
    from app.demo.answers import Answers
    from app.demo.material import Material
    from app.demo.narration import Narrator
    from app.demo.place import Place
    from app.verifier.findings import Report

Reruns = Counter[tuple["Kind", "Status"]]


@dataclass(frozen=True, slots=True)
class Examined:
    """The ledger, read again: verified, every decision executed again, memories and retrievals counted."""

    report: Report
    reruns: Reruns
    statistics: Counted
    quality: QualityReport

    @property
    def same(self) -> bool:
        """Whether every decision came out the same again."""
        return {status for _, status in self.reruns} == {"identical"}


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
        told = found.report.intact and found.statistics.equal and found.same
        return answered and not answers.unfounded and told


def examine(place: Place, narrator: Narrator) -> Examined:
    """Read the ledger. Raises KafkaUnreachable and UnknownTopics."""
    with narrator.step("Ledger") as step:
        report = asyncio.run(verify_ledger(place.bootstrap_servers, place.prefix))
        step.say(f"{report.records} records read and verified")
    with narrator.step("Rerun") as step:
        reruns = asyncio.run(_rerun(place))
        identical = sum(count for (_, status), count in reruns.items() if status == "identical")
        step.say(f"{identical} of {reruns.total()} decisions executed again, identical")
    with narrator.step("Reports") as step:
        statistics = asyncio.run(counted(place))
        quality = asyncio.run(quality_posture(place))
        step.say("memories counted live and from the ledger, retrievals from the ledger")
    return Examined(report, reruns, statistics, quality)


async def _rerun(place: Place) -> Reruns:
    kafka = KafkaEvidence(place.bootstrap_servers, place.prefix)
    return Counter([(one.kind, one.status) async for one in rerun_all(kafka, shipped_stage)])
