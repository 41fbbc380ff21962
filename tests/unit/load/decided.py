"""Traffic of the fault runs decided by the real core in memory, as the broker would hold it afterwards."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from load.inputs.task_traffic import TaskTraffic
from load.inputs.traffic import Traffic
from load.installations import neutral_policy, quality_policy, task_policy
from load.installations.installation import KIND_HEADER, Evidence, Mix, TestInstallation
from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.core.actions.stage import PASSED, StageResult
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.kinds import read_input_message
from sluice.core.foundation.chain import GENESIS, Chain
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.limits import SessionLimits
from sluice.core.foundation.requests import HELD_INPUT, Answer, next_request
from sluice.core.memory import analysis, lineage
from sluice.core.registry.keys import Roots
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.policy_then import DecisionSettings, PolicyThen
from sluice.core.rerun.recomputation import Recomputation
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.rerun.walk import PartitionWalk, WrittenRecord, get_kind, group_answers, read_entry
from sluice.core.state.book import Book, HistoryReduced
from sluice.core.state.decision import Shared
from sluice.core.state.session import KEY_PREFIX, SessionState
from sluice.core.state.usual import UseCount, UsualName
from sluice.core.trust.in_force import PolicyReducer
from sluice_demo.throwaway_trust import ThrowawayTrust
from sluice_topics.audience import UNNAMED
from sluice_topics.catalog import (
    ADMITTED,
    DESTINATION_USES,
    PROVENANCE_WANTED,
    REGISTRY,
    SERVED,
    SOURCE_FEEDBACK,
    SOURCE_HISTORIES,
    USUAL_DESTINATIONS,
)
from sluice_topics.headers import make_output_headers
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.installations.installation import TrafficRecord
    from sluice.core.actions.stage import ActionContext
    from sluice.core.foundation.requests import Request
    from sluice.core.policy.policy import Policy
    from sluice.core.rerun.rerun_result import Rerun
    from sluice.core.rerun.walk import LedgerEntry
    from sluice.core.state.decision import Decision
    from sluice.core.state.history import History, SourceName

PREFIX = "t."
TRUST = ThrowawayTrust()
BEGAN_MS = 1_700_000_000_000
MOST_HELD = {"SLUICE_MEMORY__MAX_QUARANTINE_SIZE": "3"}
INSTALLATION = TestInstallation("nowhere:1", PREFIX, "t", Path(), MOST_HELD, TRUST, began_ms=BEGAN_MS)
STEP_MS = 100
LIMITS = SessionLimits(3_600_000, 86_400_000, 512, 64, max_quarantine=3)


class _Harmless:
    """Stands in for a stage of the load workers that kills or waits."""

    def __init__(self, name: str) -> None:
        self.name = name

    def evaluate(self, context: ActionContext) -> StageResult:
        del context
        return PASSED


STAGES = (*list_shipped_stages(), _Harmless("poison"), _Harmless("slow_probe"))
APART = (
    *(ADMITTED, SOURCE_FEEDBACK, SOURCE_HISTORIES, SERVED, PROVENANCE_WANTED, DESTINATION_USES),
    USUAL_DESTINATIONS,
)
_COUNTED = ("first_at", "last_at", "times", "days", "revision")
NO_OBJECTION = {"model": "load", "prompt_version": "1", "trust": 1, "categories": [], "explanation": ""}


def decide(seed: int, events: int, task: float = 0.0) -> Evidence:
    """An honest run of so many events, and those that they make necessary, in one partition. `task`: the
    share of what agents under mandates do; none of these is revoked."""
    mix = Mix(sessions=4, slow=0.0, task=task)
    traffic = Traffic(random.Random(seed), str(seed), mix, TRUST.reviewer)  # noqa: S311 - seeded
    run = _Run()
    if task:
        rng = random.Random(f"{seed}:tasks")  # noqa: S311 - seeded
        traffic.tasks = TaskTraffic(rng, str(seed), mix, TRUST, UNNAMED, run.read_now_ms)
    for _ in range(events):
        run.publish(traffic, next(traffic))
    for event in traffic.rest():
        run.publish(traffic, event)
    run.let_time_pass()
    return run.evidence()


class _Run:
    def __init__(self) -> None:
        self._point = _point()
        self._chain = Chain(0, 0, GENESIS)
        self._ends: Counter[str] = Counter()
        self._now = BEGAN_MS
        self._table: dict[bytes, bytes] = {}
        self._book = Book(self._table)
        self._histories: dict[SourceName, History] = {}
        self._uses: dict[UsualName, UseCount] = {}
        self._shared = Shared(self._book, self._histories, uses=self._uses)
        self._states: dict[bytes, SessionState] = {}
        self._inputs: list[StoredRecord] = []
        self._changelog: list[StoredRecord] = []
        self._written: dict[str, list[StoredRecord]] = {name: [] for name in (*APART, "ledger")}

    def publish(self, traffic: Traffic, event: TrafficRecord) -> None:
        """The broker takes an event, and it is decided; then what it told of sources, then what time does."""
        if event.topic == REGISTRY:
            return
        offset = self._next(event.topic)
        kind = (KIND_HEADER, event.kind.encode())
        self._now += STEP_MS
        self._inputs.append(self._read_stored(PREFIX + event.topic, offset, event.key, event.value, kind))
        traffic.note_placed(event, 0, offset, self._now)
        self._decide(InputRecord(event.topic, 0, offset, self._now, event.key, event.value))
        self._expire()

    def read_now_ms(self) -> int:
        """The broker's time."""
        return self._now

    def let_time_pass(self) -> None:
        """Until nothing is held any more; a worker's timer raises alarms too."""
        self._now += neutral_policy.REVIEW_AFTER_MS
        self._expire()
        for _ in range(2):
            alarmed = self._point.alarms(self._book, self._now)
            if alarmed is not None:
                self._stage(alarmed, b"")

    def evidence(self) -> Evidence:
        """All that a reader of the broker would find."""
        states = [
            self._read_stored("t-sessions-changelog", 0, key, value)
            for one in self._states.values()
            for key, value in one.entries().items()
        ]
        apart = [self._written[topic] for topic in APART]
        return Evidence(
            INSTALLATION, self._inputs, self._written["ledger"], [*self._changelog, *states], 0, *apart
        )

    def _expire(self) -> None:
        expired = self._point.expire_held(self._book, self._now, 100)
        if expired is not None:
            self._stage(expired, b"")

    def _decide(self, input_record: InputRecord) -> None:
        key = KEY_PREFIX + (input_record.key or b"")
        state = self._states.setdefault(key, SessionState(key))
        message = read_input_message(input_record)
        assert not isinstance(message, Unreadable)
        evaluating = self._point.evaluate(input_record, message, state, self._shared)
        try:
            request = next_request(evaluating)
            while True:
                request = next_request(evaluating, self._answer(request))
        except StopIteration as done:
            decision: Decision = done.value
        state.apply(decision.session)
        self._stage(decision, input_record.key or b"")

    def _answer(self, request: Request) -> Answer:
        if request.port == HELD_INPUT:
            assert isinstance(request.payload, dict)
            topic, offset = PREFIX + request.payload["topic"], request.payload["offset"]
            held = next(one for one in self._inputs if (one.topic, one.offset) == (topic, offset))
            return Answer("answered", held.value)
        answers = {analysis.PORT: NO_OBJECTION, lineage.PORT: {"parents": {}}}
        return Answer("answered", answers[request.port])

    def _stage(self, decision: Decision, key: bytes) -> None:
        self._book.apply(decision.book)
        self._histories.update(
            {one.name: one.history for one in decision.book if isinstance(one, HistoryReduced)}
        )
        for name, value in self._book.flush().items():
            self._table.pop(name, None) if value is None else self._table.update({name: value})
            offset = self._next("changelog")
            self._changelog.append(
                replace(self._read_stored("t-sessions-changelog", offset, name, b""), value=value)
            )
        for record in decision.records:
            self._write(record.topic, record.subject.encode() or key, record.body)

    def _write(self, topic: str, key: bytes, body: dict[str, Any]) -> None:
        offset = self._next(topic)
        if topic not in APART:
            value = self._chain.link(body)
            self._written["ledger"].append(self._read_stored(PREFIX + topic, offset, key, value))
            return
        value = json.dumps(body).encode()
        self._written[topic].append(self._read_stored(PREFIX + topic, offset, key, value))
        if topic == USUAL_DESTINATIONS:
            name = UsualName(*orjson.loads(key))
            self._uses[name] = UseCount(*(body[one] for one in _COUNTED))
        if topic in (SOURCE_FEEDBACK, DESTINATION_USES):
            self._decide(InputRecord(topic, 0, offset, self._now, key, value))

    def _next(self, topic: str) -> int:
        self._ends[topic] += 1
        return self._ends[topic] - 1

    def _read_stored(
        self, topic: str, offset: int, key: bytes, value: bytes, *headers: tuple[str, bytes]
    ) -> StoredRecord:
        return StoredRecord(topic, 0, offset, self._now, key, value, headers)


@cache
def _point() -> DecisionPoint:
    """The policy of the fault runs, as a worker reads it."""
    named = neutral_policy.BUNDLE, _new_point, quality_policy.BUNDLE
    in_force = PolicyReducer(Roots([TRUST.root_key]), *named, STAGES)
    return in_force.first(_list_control_records())


@cache
def _list_control_records() -> list[InputRecord]:
    ends: Counter[str] = Counter()
    records = []
    published = [*neutral_policy.records(TRUST, BEGAN_MS), *task_policy.records(TRUST)]
    for topic, key, value in published:
        records.append(InputRecord(topic, 0, ends[topic], BEGAN_MS, key, value))
        ends[topic] += 1
    return records


def _new_point(rules: Policy) -> DecisionPoint:
    key = task_policy.MASTER_KEY
    return DecisionPoint(rules, STAGES, LIMITS, stopwatch=lambda: 0, environment="test", values_key=key)


def change_record(record: StoredRecord, **fields: Any) -> StoredRecord:
    """The record with some fields of its value replaced."""
    value = json.dumps({**json.loads(record.value or b"{}"), **fields}).encode()
    return replace(record, value=value, headers=())


def execute_again(evidence: Evidence, *entries: dict[str, Any]) -> list[Rerun]:
    """What `sluice rerun --all` says of the ledger: every decision, and each other record that something is
    wrong with. `entries`: of the registry, in force beside those under which the run decided."""
    walk = _begin_walk(entries)
    inputs = {}
    for of in evidence.inputs:
        base = of.topic.removeprefix(PREFIX)
        inputs[base, 0, of.offset] = InputRecord(base, 0, of.offset, of.timestamp_ms, of.key, of.value)
    written = sorted(map(_enter, evidence.ledger), key=lambda entry: entry.fields["sequence"])
    reruns: list[Rerun] = []
    for group in group_answers(written):
        coordinates = group[0].coordinates
        answered = None if coordinates is None else inputs.get(coordinates)
        reruns += walk.take(group, answered, inputs)
    return reruns


def _begin_walk(entries: Sequence[dict[str, Any]]) -> PartitionWalk:
    records, roots = [*_list_control_records()], Roots([TRUST.root_key])
    for number, (topic, key, value) in enumerate(TRUST.sign_entries([*entries])):
        records.append(InputRecord(topic, 0, len(records) + number, BEGAN_MS, key, value))
    named = neutral_policy.BUNDLE, quality_policy.BUNDLE, "test"
    of = DecisionSettings(STAGES, roots, *named, LIMITS, 0, None, values_key=task_policy.MASTER_KEY)
    policy = PolicyEvidence()
    for record in records:
        policy.add(record.topic, record.value)
    then = PolicyThen(records, roots, of)
    stages = {stage.name: stage for stage in STAGES}
    return PartitionWalk(Rerunner(policy, stages.__getitem__, then=then), Recomputation(then, LIMITS))


def _enter(stored: StoredRecord) -> LedgerEntry:
    base = stored.topic.removeprefix(PREFIX)
    written = WrittenRecord(base, 0, stored.offset, stored.timestamp_ms, stored.key, stored.value or b"", ())
    entry = read_entry(written)
    assert entry is not None
    headers = make_output_headers(entry.fields, get_kind(entry.fields), "", None)
    return entry._replace(written=written._replace(headers=tuple(headers)))
