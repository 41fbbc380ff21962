"""A worker's metrics: counts what the engine commits, a batch at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, get_args

from sluice_topics.records import Alarm, OutcomeAlarm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.observability.metrics import Labels, ProcessMetrics
    from sluice.stream.engine.observer import Commit, EngineState, StagedRecord

NONE, BEFORE = "none", "before_gates"
POLICY_DIGITS = slice(7, 19)
"""Of a hash "sha256:…": enough to tell two policies apart."""
ALARMS = tuple(
    kind for record in (Alarm, OutcomeAlarm) for kind in get_args(record.model_fields["kind"].annotation)
)
"""The kinds of alarms that the ledger has."""
_MS_PER_S = 1000


def find_deciding_gate(verdict: dict[str, Any]) -> str:
    """The gate whose objection made a verdict's outcome: a block ends the gates, so the last one that
    objected; of those that call for a person, the first."""
    gates, outcome = verdict["gateResults"], verdict["outcome"]
    if not gates:
        return BEFORE
    objecting = [item["gate"] for item in gates if not item["passed"]]
    if outcome == "ALLOW" or not objecting:
        return NONE
    gate: str = objecting[-1] if outcome == "BLOCK" else objecting[0]
    return gate


class WorkerMetrics:
    """An observer of the engine that keeps its metrics."""

    def __init__(self, metrics: ProcessMetrics, wall_ms: Callable[[], int]) -> None:
        """`wall_ms`: the time, ms since 1970."""
        self._metrics = metrics
        self._wall_ms = wall_ms
        self._policy: str | None = None
        # From 0 on: what a first alarm adds is an increase then.
        metrics.add("sluice_alarms_total", {(kind,): 0 for kind in ALARMS})

    def note_taken(self, records: Sequence[StagedRecord]) -> object:
        """Count a transaction's records; they count once it commits."""
        return _TakenCounts(records)

    def note_commit(self, commit: Commit) -> None:
        """Add what a transaction counts."""
        if isinstance(commit.taken, _TakenCounts):
            commit.taken.add_to(self._metrics, commit)

    def note_state(self, state: EngineState) -> None:
        """Give the gauges what there is now."""
        metrics = self._metrics
        metrics.put("sluice_consumer_lag", {(topic,): lag for topic, lag in state.lag.items()})
        oldest, read = state.oldest_escalation_ms, state.control_read_ms
        for name, value in {
            "sluice_ready": int(state.partitions > 0),
            "sluice_partitions_open": state.partitions,
            "sluice_inputs_in_flight": state.in_flight,
            "sluice_state_entries": state.entries,
            "sluice_state_bytes": state.state_bytes,
            "sluice_quarantined_memories": state.quarantined,
            "sluice_escalations_open": state.escalations,
            "sluice_escalation_oldest_timestamp_seconds": None if oldest is None else oldest / _MS_PER_S,
            "sluice_policy_read_timestamp_seconds": None if read is None else read / _MS_PER_S,
        }.items():
            metrics.put(name, {} if value is None else {(): value})

    def note_fenced(self, partitions: int) -> None:
        """Count partitions taken from their former owners."""
        self._metrics.add("sluice_partitions_fenced_total", {(): partitions})

    def note_policy(self, contents: PolicyContents, refused: int) -> None:
        """Say which policy is in force, and since when."""
        self._metrics.put("sluice_control_records_refused", {(): refused})
        if contents.digest != self._policy:
            self._policy = contents.digest
            self._metrics.put("sluice_policy_in_force", {(contents.digest[POLICY_DIGITS],): 1})
            at_s = self._wall_ms() / _MS_PER_S
            self._metrics.put("sluice_policy_changed_timestamp_seconds", {(): at_s})

    def note_at_hand(self, port: str) -> None:
        """Count an answer that was remembered."""
        self._metrics.add("sluice_answers_at_hand_total", {(port,): 1})

    def note_question(self, port: str, status: str, took_s: float) -> None:
        """Count a question that was asked."""
        self._metrics.add("sluice_questions_total", {(port, status): 1})
        self._metrics.observe("sluice_question_seconds", {(port,): (took_s,)})


class _TakenCounts:
    """What one transaction adds, by metric and labels: one look at each record, and one lock a metric."""

    def __init__(self, records: Sequence[StagedRecord]) -> None:
        self._counts: defaultdict[str, Counter[Labels]] = defaultdict(Counter)
        self._observed: defaultdict[str, defaultdict[Labels, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._observed["sluice_batch_records"][()].append(float(len(records)))
        self._inputs: list[tuple[str, int, int]] = []
        self._gate_ms: defaultdict[str, list[float]] = defaultdict(list)
        self._failed: Counter[str] = Counter()
        for staged in records:
            self._count(staged)
        self._count_gates()

    def add_to(self, metrics: ProcessMetrics, commit: Commit) -> None:
        """Add everything, now that it has committed."""
        self._observed["sluice_commit_seconds"][()].append(commit.took_s)
        self._time_inputs(commit.committed_ms)
        for name, counts in self._counts.items():
            metrics.add(name, counts)
        for name, observed in self._observed.items():
            metrics.observe(name, observed)

    def _count(self, staged: StagedRecord) -> None:
        record, counts = staged.record, self._counts
        body, kind = record.body, record.kind
        if "event_hash" in body:
            counts["sluice_ledger_records_total"][(kind,)] += 1
        if kind in ("Verdict", "ResolvedVerdict"):
            self._count_verdict(body)
        elif kind == "MemoryDecision":
            counts["sluice_memory_decisions_total"][body["action"], body["enforcement"]] += 1
        elif kind == "QualityDecision":
            counts["sluice_item_decisions_total"][body["outcome"], body["enforcement"]] += 1
        elif kind == "DeadLetter":
            counts["sluice_dead_letters_total"][body["topic"], body["code"]] += 1
        elif kind == "InputRefused":
            counts["sluice_inputs_refused_total"][body["topic"], body["reason"]] += 1
        elif kind in ("Alarm", "OutcomeAlarm"):
            counts["sluice_alarms_total"][(body["kind"],)] += 1
        answered = staged.answered
        if answered is not None:
            self._inputs.append((answered.topic, answered.timestamp_ms, staged.staged_ms))

    def _count_verdict(self, body: dict[str, Any]) -> None:
        """Most gates let most actions pass: what failed is counted one by one, and the rest is what is
        left."""
        gate = find_deciding_gate(body)
        self._counts["sluice_verdicts_total"][gate, body["outcome"], body["enforcement"]] += 1
        durations = self._gate_ms
        for result in body["gateResults"]:
            durations[result["gate"]].append(result["durationMs"])
            if not result["passed"]:
                self._failed[result["gate"]] += 1

    def _count_gates(self) -> None:
        results, seconds = self._counts["sluice_gate_results_total"], self._observed["sluice_gate_seconds"]
        for gate, durations in self._gate_ms.items():
            failed = self._failed[gate]
            if failed:
                results[gate, "failed"] += failed
            if len(durations) > failed:
                results[gate, "passed"] += len(durations) - failed
            seconds[(gate,)] += [duration / _MS_PER_S for duration in durations]

    def _time_inputs(self, committed_ms: int) -> None:
        """Time each input from the broker's timestamp; what time alone led to answers none."""
        seconds = self._observed["sluice_input_seconds"]
        for topic, came_ms, staged_ms in self._inputs:
            waited = max(0, staged_ms - came_ms) / _MS_PER_S
            committing = max(0, committed_ms - staged_ms) / _MS_PER_S
            seconds[topic, "wait"].append(waited)
            seconds[topic, "commit"].append(committing)
            seconds[topic, "whole"].append(waited + committing)
