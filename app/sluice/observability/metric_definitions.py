"""Every metric that a process of Sluice publishes: its name, type, unit, labels and meaning. The only list.

docs/observability.md's tables, the dashboard's and the alerts' queries are held against it. The values of a
label come from a closed set of this program's words or of an operator's settings, never from an input: no
tenant, session, agent, tool or id of a record is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Process = Literal["worker", "gateway", "notifier", "signer", "archiver"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of a histogram's buckets for waiting times, in s."""
GATE_SECONDS = (
    0.00001,
    0.000025,
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.01,
    0.05,
    0.25,
    1.0,
    5.0,
)
"""The same for the time that a gate works, in s."""
RECORDS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
"""The same for numbers of records."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric. `name` as Prometheus stores it, with the `_total` of a counter; `unit` of its values, in
    words; `labels` in their order; `by` what each label's values are; `buckets` of a histogram only, as
    upper bounds in the metric's unit."""

    name: str
    kind: Kind
    unit: str
    processes: tuple[Process, ...]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


LABELS = {
    "action": "what became of a memory write: allow, quarantine, reject",
    "code": "the code of a dead letter, one of this program's words",
    "destination": "slack, or webhook and the name that the settings give it",
    "enforcement": "enforce, or shadow where the policy only observes",
    "gate": "a gate of the bundles; none where no gate objected; before_gates where none was reached",
    "kind": "the kind of a ledger record or an alarm, one of this program's words",
    "method": "the HTTP method, OTHER for one that the gateway does not have",
    "outcome": "ALLOW, BLOCK, ESCALATE for actions; pass, downgrade, deny, … for items",
    "policy": "the first 12 hex digits of the hash over everything in force",
    "port": "what is asked: a model's port, the encoder, held inputs",
    "reason": "why an input was refused, one of this program's words",
    "result": "passed or failed for a gate; delivered, put_off or fault for a notification",
    "route": "the path's template, such as /v1/verdicts/{verdict_id}; none for a path that there is not",
    "stage": "wait: until it was decided; commit: from there on; whole: both",
    "status": "of an answer: answered, overrun (the operator's budget), deadline (the caller's), busy, "
    "unavailable; of a response: its code",
    "topic": "an input or control topic's name without prefix",
}
"""What the values of each label are."""

_WORKER: tuple[Process, ...] = ("worker",)
_GATEWAY: tuple[Process, ...] = ("gateway",)
_SIGNER: tuple[Process, ...] = ("signer",)
_ARCHIVER: tuple[Process, ...] = ("archiver",)
_NOTIFIER: tuple[Process, ...] = ("notifier",)
_ALL: tuple[Process, ...] = ("worker", "gateway", "notifier")

METRICS: tuple[MetricDefinition, ...] = (
    MetricDefinition(
        "sluice_ready",
        "gauge",
        "0 or 1",
        _ALL,
        "Whether the process does its work, as /readyz says.",
    ),
    MetricDefinition(
        "sluice_verdicts_total",
        "counter",
        "verdicts",
        _WORKER,
        "Committed verdicts on actions, by the gate whose objection counted and the outcome.",
        ("gate", "outcome", "enforcement"),
    ),
    MetricDefinition(
        "sluice_gate_results_total",
        "counter",
        "results",
        _WORKER,
        "What each gate said in committed verdicts.",
        ("gate", "result"),
    ),
    MetricDefinition(
        "sluice_gate_seconds",
        "histogram",
        "seconds",
        _WORKER,
        "How long a gate worked on an action, with the answers that it waited for.",
        ("gate",),
        GATE_SECONDS,
    ),
    MetricDefinition(
        "sluice_memory_decisions_total",
        "counter",
        "decisions",
        _WORKER,
        "Committed decisions on memory writes.",
        ("action", "enforcement"),
    ),
    MetricDefinition(
        "sluice_item_decisions_total",
        "counter",
        "decisions",
        _WORKER,
        "Committed decisions on items of retrievals.",
        ("outcome", "enforcement"),
    ),
    MetricDefinition(
        "sluice_input_seconds",
        "histogram",
        "seconds",
        _WORKER,
        "From the broker's timestamp of an input to the committed decision on it, by stage; the worker's "
        "clock must agree with the broker's.",
        ("topic", "stage"),
        SECONDS,
    ),
    MetricDefinition(
        "sluice_ledger_records_total",
        "counter",
        "records",
        _WORKER,
        "Committed records of the ledger.",
        ("kind",),
    ),
    MetricDefinition(
        "sluice_dead_letters_total",
        "counter",
        "records",
        _WORKER,
        "Inputs and control records that could not be read or do not count.",
        ("topic", "code"),
    ),
    MetricDefinition(
        "sluice_inputs_refused_total",
        "counter",
        "inputs",
        _WORKER,
        "Readable inputs that count for nothing, such as an answer to what does not wait.",
        ("topic", "reason"),
    ),
    MetricDefinition(
        "sluice_alarms_total", "counter", "alarms", _WORKER, "Alarms raised in the ledger.", ("kind",)
    ),
    MetricDefinition(
        "sluice_consumer_lag",
        "gauge",
        "records",
        _WORKER,
        "Inputs of this worker's partitions that are published and not decided.",
        ("topic",),
    ),
    MetricDefinition(
        "sluice_inputs_in_flight",
        "gauge",
        "inputs",
        _WORKER,
        "Inputs that were read and are not decided: most wait for an answer.",
    ),
    MetricDefinition(
        "sluice_partitions_open", "gauge", "partitions", _WORKER, "Partitions that this worker decides for."
    ),
    MetricDefinition(
        "sluice_batch_records",
        "histogram",
        "records",
        _WORKER,
        "Records of one committed transaction, without the changelog's.",
        (),
        RECORDS,
    ),
    MetricDefinition(
        "sluice_commit_seconds",
        "histogram",
        "seconds",
        _WORKER,
        "How long a transaction took, from its first record sent to the commit.",
        (),
        SECONDS,
    ),
    MetricDefinition(
        "sluice_state_entries",
        "gauge",
        "entries",
        _WORKER,
        "Entries of state in memory, of all open partitions.",
    ),
    MetricDefinition(
        "sluice_state_bytes",
        "gauge",
        "bytes",
        _WORKER,
        "Keys and values of that state, as on the changelog; in memory it takes more.",
    ),
    MetricDefinition(
        "sluice_answers_at_hand_total",
        "counter",
        "questions",
        _WORKER,
        "Questions of gates whose answer the process remembered: the cache's hits.",
        ("port",),
    ),
    MetricDefinition(
        "sluice_questions_total",
        "counter",
        "questions",
        _WORKER,
        "Questions of gates that were asked, by what came of them; overrun and deadline are budgets passed.",
        ("port", "status"),
    ),
    MetricDefinition(
        "sluice_question_seconds",
        "histogram",
        "seconds",
        _WORKER,
        "How long a question of a gate took, with its turn in the queue.",
        ("port",),
        SECONDS,
    ),
    MetricDefinition(
        "sluice_partitions_fenced_total",
        "counter",
        "partitions",
        _WORKER,
        "Partitions from which this worker has shut out the former owner. A worker that was itself shut out "
        "ends with status 4, which its supervisor counts.",
    ),
    MetricDefinition(
        "sluice_policy_in_force",
        "gauge",
        "always 1",
        _WORKER,
        "The policy in force, by the beginning of its hash: two values among workers that last longer than "
        "policy.max_lag_s mean that one of them reads an old policy.",
        ("policy",),
    ),
    MetricDefinition(
        "sluice_policy_changed_timestamp_seconds",
        "gauge",
        "seconds since 1970",
        _WORKER,
        "When the policy in force came into force in this process; its age is time() less this.",
    ),
    MetricDefinition(
        "sluice_policy_read_timestamp_seconds",
        "gauge",
        "seconds since 1970",
        _WORKER,
        "When the control topics were last read to their end.",
    ),
    MetricDefinition(
        "sluice_control_records_refused",
        "gauge",
        "records",
        _WORKER,
        "Records on the control topics that do not count now.",
    ),
    MetricDefinition(
        "sluice_quarantined_memories",
        "gauge",
        "memories",
        _WORKER,
        "Memories that wait in the quarantine of this worker's partitions.",
    ),
    MetricDefinition(
        "sluice_escalations_open",
        "gauge",
        "escalations",
        _WORKER,
        "Actions and items of this worker's partitions that wait for a person.",
    ),
    MetricDefinition(
        "sluice_escalation_oldest_timestamp_seconds",
        "gauge",
        "seconds since 1970",
        _WORKER,
        "When the oldest of them was opened; absent while none waits.",
    ),
    MetricDefinition(
        "sluice_gateway_requests_total",
        "counter",
        "requests",
        _GATEWAY,
        "Requests that were answered.",
        ("method", "route", "status"),
    ),
    MetricDefinition(
        "sluice_gateway_request_seconds",
        "histogram",
        "seconds",
        _GATEWAY,
        "From the whole headers of a request to the end of its response, with the wait for a decision.",
        ("route",),
        SECONDS,
    ),
    MetricDefinition(
        "sluice_notifications_total",
        "counter",
        "deliveries",
        _NOTIFIER,
        "Deliveries to a destination, by what came of them.",
        ("destination", "result"),
    ),
    MetricDefinition(
        "sluice_notifications_waiting",
        "gauge",
        "subjects",
        _NOTIFIER,
        "Subjects that a destination was not told of yet.",
        ("destination",),
    ),
    MetricDefinition(
        "sluice_heads_signed_total",
        "counter",
        "heads",
        _SIGNER,
        "Tree heads that this process signed and published.",
    ),
    MetricDefinition(
        "sluice_head_timestamp_seconds",
        "gauge",
        "seconds since 1970",
        _SIGNER,
        "When the newest tree head of the topic was signed; absent while there is none.",
    ),
    MetricDefinition(
        "sluice_unsigned_records",
        "gauge",
        "records",
        _SIGNER,
        "Records of the ledger that were read and that no head states yet.",
    ),
    MetricDefinition(
        "sluice_archived_records_total",
        "counter",
        "records",
        _ARCHIVER,
        "Records in the entries that this process added to the archive.",
    ),
    MetricDefinition(
        "sluice_archive_timestamp_seconds",
        "gauge",
        "seconds since 1970",
        _ARCHIVER,
        "The last time of which everything on the broker is archived; after a start that of the last entry.",
    ),
)

BY_NAME = {metric.name: metric for metric in METRICS}
