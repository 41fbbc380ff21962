"""The metrics: what a scrape shows of what was counted, within bounds, in as many registries as one wants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.input_record import InputRecord
from sluice.core.trust.policy_contents import PolicyContents
from sluice.observability.metric_definitions import BY_NAME, LABELS, METRICS
from sluice.observability.metrics import MOST_SERIES, OTHER, ProcessMetrics
from sluice.observability.observers import EngineObservers
from sluice.observability.worker_metrics import WorkerMetrics, find_deciding_gate
from sluice.stream.engine.observer import Commit, EngineObserver, EngineState, StagedRecord, Unobserved
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

NEVER_LABELS = {"tenant", "tenant_id", "session", "session_id", "agent", "agent_id", "tool", "action_id"}


def read(registry: CollectorRegistry) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample of a scrape, by its name and the values of its labels, in their defined order."""
    text = generate_latest(registry).decode()
    return {
        (sample.name, _list_values(sample)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _list_values(sample: Sample) -> tuple[str, ...]:
    base = re.sub("_(bucket|count|sum)$", "", sample.name)
    names = (BY_NAME.get(sample.name) or BY_NAME[base]).labels
    return tuple(sample.labels[name] for name in (*names, "le") if name in sample.labels)


def gate(name: str, *, passed: bool, ms: float = 1) -> dict[str, Any]:
    return {"gate": name, "passed": passed, "durationMs": ms}


def verdict(outcome: str, *gates: dict[str, Any]) -> dict[str, Any]:
    return {"outcome": outcome, "enforcement": "enforce", "gateResults": list(gates), "event_hash": "x"}


def staged(body: dict[str, Any], kind: str = "Verdict", *, answers: bool = True) -> StagedRecord:
    answered = InputRecord(ACTIONS, 0, 1, 1_000, b"s", b"{}") if answers else None
    return StagedRecord(OutRecord(VERDICTS, kind, body, "s"), None, answered, 1_200)


def commit(
    observer: EngineObserver, records: list[StagedRecord], took_s: float = 0.01, at_ms: int = 1_150
) -> None:
    """As a worker does."""
    observer.note_commit(Commit(observer.note_taken(records), took_s, at_ms))


def test_every_definition_says_what_it_is() -> None:
    assert len(BY_NAME) == len(METRICS)
    for one in METRICS:
        assert re.fullmatch(r"sluice_[a-z_]+", one.name)
        assert one.name.endswith("_total") == (one.kind == "counter"), one.name
        assert bool(one.buckets) == (one.kind == "histogram"), one.name
        assert list(one.buckets) == sorted(set(one.buckets)), one.name
        assert one.meaning.endswith("."), one.name
        assert one.processes, one.name
        assert set(one.labels) <= LABELS.keys(), one.name
        assert NEVER_LABELS.isdisjoint(one.labels), one.name
    assert set(LABELS) == {label for one in METRICS for label in one.labels}


def test_a_commit_is_counted_by_gate_and_outcome_and_timed_from_the_brokers_timestamp() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(ProcessMetrics("worker", registry), lambda: 0)
    allowed = verdict("ALLOW", gate("limits", passed=True), gate("rules", passed=True, ms=0.02))
    waits = verdict("ESCALATE", gate("limits", passed=False), gate("rules", passed=False))
    blocked = verdict("BLOCK", gate("limits", passed=False), gate("rules", passed=False))
    expired = staged({"event_hash": "x", "kind": "late"}, "EscalationExpired", answers=False)
    records = [*map(staged, (allowed, waits, blocked, verdict("BLOCK"))), expired]
    commit(metrics, records, 0.02, 1_450)
    found = read(registry)
    counted = {labels: n for (name, labels), n in found.items() if name == "sluice_verdicts_total"}
    assert counted == {
        ("none", "ALLOW", "enforce"): 1,
        ("limits", "ESCALATE", "enforce"): 1,
        ("rules", "BLOCK", "enforce"): 1,
        ("before_gates", "BLOCK", "enforce"): 1,
    }
    assert found["sluice_gate_results_total", ("limits", "failed")] == 2
    assert found["sluice_gate_seconds_bucket", ("rules", "2.5e-05")] == 1
    assert found["sluice_gate_seconds_count", ("rules",)] == 3
    assert found["sluice_ledger_records_total", ("EscalationExpired",)] == 1
    for stage, seconds in (("wait", 0.2), ("commit", 0.25), ("whole", 0.45)):
        assert found["sluice_input_seconds_count", (ACTIONS, stage)] == 4  # no input led to the expiry
        assert found["sluice_input_seconds_sum", (ACTIONS, stage)] == pytest.approx(4 * seconds)
    assert found["sluice_batch_records_sum", ()] == 5
    assert found["sluice_commit_seconds_bucket", ("0.025",)] == 1


def test_other_records_are_counted_by_this_programs_words() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(ProcessMetrics("worker", registry), lambda: 0)
    bodies = {
        "MemoryDecision": {"action": "quarantine", "enforcement": "shadow"},
        "QualityDecision": {"outcome": "downgrade", "enforcement": "enforce"},
        "DeadLetter": {"topic": ACTIONS, "code": "not_json"},
        "InputRefused": {"topic": "gate.reviews", "reason": "unknown_subject"},
        "OutcomeAlarm": {"kind": "outcome_disputed"},
    }
    commit(metrics, [staged(body, kind) for kind, body in bodies.items()], 0.0, 2_000)
    found = read(registry)
    assert found["sluice_memory_decisions_total", ("quarantine", "shadow")] == 1
    assert found["sluice_item_decisions_total", ("downgrade", "enforce")] == 1
    assert found["sluice_dead_letters_total", (ACTIONS, "not_json")] == 1
    assert found["sluice_inputs_refused_total", ("gate.reviews", "unknown_subject")] == 1
    assert found["sluice_alarms_total", ("outcome_disputed",)] == 1


def test_a_policy_has_one_value_and_an_age_that_begins_when_it_changes() -> None:
    registry, now = CollectorRegistry(), [5_000]
    metrics = WorkerMetrics(ProcessMetrics("worker", registry), lambda: now[0])
    first, second = (PolicyContents({}, f"sha256:{digit * 64}") for digit in "ab")
    metrics.note_policy(first, 0)
    now[0] = 9_000
    metrics.note_policy(first, 2)
    assert read(registry)["sluice_policy_changed_timestamp_seconds", ()] == 5.0
    assert read(registry)["sluice_control_records_refused", ()] == 2
    metrics.note_policy(second, 0)
    found = {labels: n for (name, labels), n in read(registry).items() if name == "sluice_policy_in_force"}
    assert found == {("b" * 12,): 1}
    assert read(registry)["sluice_policy_changed_timestamp_seconds", ()] == 9.0


def test_what_a_worker_no_longer_owns_is_no_longer_shown() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(ProcessMetrics("worker", registry), lambda: 0)
    metrics.note_state(EngineState(2, 3, {ACTIONS: 7}, 10, 999, 1, 4, 60_000, 61_000))
    found = read(registry)
    assert found["sluice_consumer_lag", (ACTIONS,)] == 7
    assert found["sluice_escalation_oldest_timestamp_seconds", ()] == 60.0
    assert found["sluice_ready", ()] == 1
    metrics.note_state(EngineState())
    found = read(registry)
    assert ("sluice_consumer_lag", (ACTIONS,)) not in found
    assert ("sluice_escalation_oldest_timestamp_seconds", ()) not in found
    assert found["sluice_ready", ()] == found["sluice_state_bytes", ()] == 0


def test_two_processes_of_a_test_have_registries_of_their_own_and_one_registry_takes_no_second() -> None:
    one, other = CollectorRegistry(), CollectorRegistry()
    ProcessMetrics("worker", one).add("sluice_partitions_fenced_total", {(): 3})
    ProcessMetrics("worker", other)
    assert read(one)["sluice_partitions_fenced_total", ()] == 3
    assert read(other)["sluice_partitions_fenced_total", ()] == 0
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        ProcessMetrics("worker", one)


def test_a_flood_of_label_values_ends_under_one_name() -> None:
    registry = CollectorRegistry()
    metrics = ProcessMetrics("gateway", registry)
    for number in range(MOST_SERIES + 50):
        metrics.add("sluice_gateway_requests_total", {("GET", f"/{number}", "200"): 1})
    counted = {k: n for (name, k), n in read(registry).items() if name == "sluice_gateway_requests_total"}
    assert len(counted) == MOST_SERIES + 1
    assert counted[OTHER, OTHER, OTHER] == 50


def test_an_observer_that_fails_reaches_neither_the_worker_nor_the_next_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Unobserved):
        def note_commit(self, commit: Commit) -> None:
            raise KeyError(commit)

    registry = CollectorRegistry()
    observers = EngineObservers([Failing(), WorkerMetrics(ProcessMetrics("worker", registry), lambda: 0)])
    for _ in range(3):
        commit(observers, [staged(verdict("ALLOW"))], 0.0, 2_000)
    assert read(registry)["sluice_batch_records_count", ()] == 3
    assert [one.levelname for one in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    ("outcome", "passed", "expected"),
    [
        ("ALLOW", "ab", "none"),
        ("ALLOW", "b", "none"),  # a gate in a mode that lets its objection pass
        ("ESCALATE", "b", "a"),
        ("BLOCK", "", "b"),
        ("BLOCK", "a", "b"),
    ],
)
def test_the_deciding_gate(outcome: str, passed: str, expected: str) -> None:
    gates = [gate(name, passed=name in passed) for name in "ab"]
    assert find_deciding_gate(verdict(outcome, *gates)) == expected
