"""What came of a run: its verdicts counted, and what the ledger on its broker says when everything is over.

Verdicts are counted by who decided and why, with each session's last totals. From the broker come seed 003's
statistics, as the worker kept them and as the ledger has them, and seed 004's quality posture, from the
ledger alone.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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
from topics.catalog import ALARMS, QUALITY_DECISIONS, SESSION_EVENTS, VERDICTS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from app.broker.process_identity import ProcessIdentity
    from app.core.reports.report import QualityReport
    from app.demo.demo_answers import AnsweredInput, Answers
    from app.demo.inputs.material import Material
    from app.demo.run_place import RunPlace
    from app.verifier.findings import Report

NO_GATE = "-"
DUPLICATE = "duplicate"
SETTLED = "sluice/reservation_settled/v1"


class Cause(NamedTuple):
    """`gate`: the first that did not pass, or NO_GATE; `reason`: its words; `kind`: its first word."""

    verdict: str
    gate: str
    kind: str
    reason: str


def cause_of(verdict: dict[str, Any]) -> Cause:
    """Why this verdict, by wire names. An escalation keeps the gate that asked for it."""
    if verdict.get("duplicate_of"):
        return Cause(verdict["verdict"], NO_GATE, DUPLICATE, "seen before, counted once")
    failed = next((gate for gate in verdict["gateResults"] if not gate["passed"]), None)
    reason = (failed or {}).get("failureReason") or verdict.get("blockReason") or ""
    gate = NO_GATE if failed is None else failed["gate"]
    return Cause(verdict["verdict"], gate, reason.partition(":")[0], reason)


def counted(answers: Answers) -> list[tuple[Cause, int]]:
    """How many verdicts of each word, gate and kind of reason; an example's reason in each."""
    counts: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str, str], Cause] = {}
    for one in answers.of(VERDICTS):
        cause = cause_of(one.body)
        counts[cause[:3]] += 1
        examples.setdefault(cause[:3], cause)
    return [(examples[key], counts[key]) for key in sorted(counts, key=lambda key: (key[0], -counts[key]))]


def examples_of(answers: Answers, each: int) -> list[AnsweredInput]:
    """Up to `each` verdicts of every word, gate and kind, of different tools, in the order of `counted`."""
    order = [cause[:3] for cause, _ in counted(answers)]
    chosen: dict[tuple[str, str, str], dict[str, AnsweredInput]] = {key: {} for key in order}
    # From the end, where the ordinary sessions are; the growing ones are shown by themselves.
    for one in reversed(list(answers.of(VERDICTS))):
        found = chosen[cause_of(one.body)[:3]]
        if len(found) < each:
            found.setdefault(one.planned.fields["toolName"], one)
    return [one for found in chosen.values() for one in found.values()]


@dataclass
class SessionTally:
    """A session's verdicts by word, and the totals that its last ledger record left."""

    session_id: str
    verdicts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    actions: int = 0
    sequence: int = 0

    def totals(self, sequence: int, rows: int, actions: int | None) -> None:
        """These totals, unless a later record has spoken already; `actions` None: unchanged."""
        if actions is not None:
            self.actions = max(self.actions, actions)
        if sequence > self.sequence:
            self.sequence, self.rows = sequence, rows


def by_session(answers: Answers) -> list[SessionTally]:
    """In the order in which the sessions began."""
    tallies: dict[str, SessionTally] = {}
    for one in answers.of(VERDICTS):
        tally = tallies.setdefault(one.planned.session_id, SessionTally(one.planned.session_id))
        tally.verdicts[one.body["verdict"]] += 1
        after = one.body["session"]["after"]
        counts = int(after["aggregateRowsAffected"]), int(after["aggregateActionCount"])
        tally.totals(one.body["sequence"], *counts)
    for one in settled(answers):
        tallies[one.planned.session_id].totals(
            one.body["sequence"], int(one.body["aggregateRowsAffected"]), None
        )
    return list(tallies.values())


def escalations_by_reason(answers: Answers) -> list[tuple[tuple[str, str, str], int]]:
    """How many escalations of each tier, role that may approve and kind of reason; most first."""
    counts = Counter(
        (one["tier"], one["required_role"], one["reason"].partition(":")[0]) for one in answers.escalations
    )
    return counts.most_common()


def settled(answers: Answers) -> list[AnsweredInput]:
    """The outcomes that settled a reservation."""
    return [one for one in answers.of(SESSION_EVENTS) if one.body["schema"] == SETTLED]


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """`live`: over all partitions, tenants and agents; `equal`: each of its parts is as the ledger has it."""

    live: Statistics
    equal: bool


async def count_memories(place: RunPlace) -> MemoryStatistics:
    """Read both from the broker. Raises KafkaUnreachable and UnknownTopics."""
    names = {topic.name: real for real, topic in place.layout.topics().items()}
    kafka = KafkaQuarantine(place.bootstrap_servers, names)
    live = await live_statistics(kafka.changelog())
    recount = await kafka.recount(live.sequences)
    whole = summed(live.counts, lambda _: None).get(None, NOTHING)
    return MemoryStatistics(whole, not differences(live.counts, recount.counts))


async def quality_posture(place: RunPlace) -> QualityReport:
    """Of all tenants and days. Raises KafkaUnreachable, UnknownTopics and NotADecisionError."""
    tally = QualityTally()
    values = LedgerValues({DECISION: tally.decision, REPORTED: tally.report, ALARM: tally.alarm})
    topics = [f"{place.prefix}{name}" for name in (QUALITY_DECISIONS, SESSION_EVENTS, ALARMS)]
    await read_values(place.bootstrap_servers, topics, values.take)
    return quality_report(
        tally, values.basis(f"the topics {place.prefix}gate.* at {place.bootstrap_servers}")
    )


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
    statistics: MemoryStatistics
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
        """Every input was answered once, nothing was shown that nobody decided on, nothing is held any more,
        the ledger is intact, it has what the worker counted, and every decision came out the same again.
        """
        answers, found = self.answers, self.examined
        answered = not answers.unanswered and not answers.answered_twice and not answers.held
        ledger_agrees = found.report.intact and found.statistics.equal and found.reruns.all_identical
        return answered and not answers.unfounded and ledger_agrees


def examine(place: RunPlace, narrator: Narrator) -> Examined:
    """Read the ledger. Raises KafkaUnreachable and UnknownTopics."""
    with narrator.step("Ledger") as step:
        report = asyncio.run(verify_ledger(place.bootstrap_servers, place.prefix))
        step.say(f"{report.records} records read and verified")
    with narrator.step("Rerun") as step:
        reruns = asyncio.run(_rerun(place))
        step.say(f"{reruns.counts['identical']} of {reruns.total} decisions executed again, identical")
    with narrator.step("Reports") as step:
        statistics = asyncio.run(count_memories(place))
        quality = asyncio.run(quality_posture(place))
        step.say("memories counted live and from the ledger, retrievals from the ledger")
    return Examined(report, reruns, statistics, quality)


async def _rerun(place: RunPlace) -> RerunTally:
    kafka = KafkaEvidence(place.bootstrap_servers, place.prefix)
    of = build_installation(load_settings(environment=place.for_worker(os.environ)), {})
    tally = RerunTally()
    async for one in rerun_all(kafka, of):
        tally.take([one])
    return tally
