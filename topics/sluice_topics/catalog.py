"""Every topic: name, direction, records, key, partitions, retention, cleanup, size. The only list.

Topic creation and checking, the AsyncAPI document and the schemas are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from sluice_topics.records import (
    ActionOutcome,
    AdmittedMemory,
    Alarm,
    DeadLetter,
    DestinationUsed,
    DsseEnvelope,
    InputRefused,
    MandateRecorded,
    MemoryDecision,
    NotifiedSubject,
    OutcomeAlarm,
    PolicyInForce,
    ProposedAction,
    ProposedMemoryWrite,
    ProposedRetrieval,
    ProvenanceRecord,
    ProvenanceWanted,
    QualityDecision,
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
    ReservationSettled,
    ResolvedVerdict,
    RetrievalEscalationOpened,
    RetrievalReport,
    RetrievalReported,
    ReviewDecision,
    ServedRetrieval,
    SessionFolded,
    SignedTreeHead,
    SourceFeedback,
    SourceHistory,
    TaskMandate,
    UsualDestination,
    Verdict,
    WrappedKey,
)
from sluice_topics.records.escalation_events import OF_ACTIONS, OF_GRANTS, OF_ITEMS

if TYPE_CHECKING:
    from sluice_topics.records.base import Record

ACTIONS = "gate.actions.proposed"
MEMORY_WRITES = "gate.memory.writes.proposed"
RETRIEVALS = "gate.memory.retrievals.proposed"
REPORTED = "gate.memory.retrievals.reported"
OUTCOMES = "gate.outcomes"
REVIEWS = "gate.reviews"
MANDATES = "gate.mandates"
BUNDLES = "gate.bundles"
REGISTRY = "gate.registry"
VERDICTS = "gate.verdicts"
ESCALATIONS = "gate.escalations"
MEMORY_DECISIONS = "gate.memory.decisions"
QUARANTINE = "gate.quarantine"
ADMITTED = "gate.memory.admitted"
QUALITY_DECISIONS = "gate.memory.quality_decision"
SERVED = "gate.memory.retrievals.served"
ALARMS = "gate.alarms"
SESSION_EVENTS = "gate.session.events"
POLICY_EVENTS = "gate.policy.events"
DEAD_LETTERS = "gate.dead_letters"
TREE_HEADS = "gate.tree_heads"
SUBJECT_KEYS = "gate.subject_keys"
SESSIONS_CHANGELOG = "sessions-changelog"
SOURCE_FEEDBACK = "source-feedback"
SOURCE_HISTORIES = "source-histories"
DESTINATION_USES = "destination-uses"
USUAL_DESTINATIONS = "usual-destinations"
PROVENANCE_WANTED = "provenance-wanted"
PROVENANCE_RECORDS = "provenance-records"
NOTIFICATIONS = "notifications"

Direction = Literal["in", "out", "control", "internal", "keys"]
Cleanup = Literal["delete", "compact", "compact,delete"]

DEFAULT_PARTITIONS = 8
KEEP = -1
"""retention.ms of a topic that is never emptied."""
INPUT_RETENTION_MS = 30 * 24 * 3600 * 1000
"""Of inputs unless the settings say otherwise, and of what is released."""
MAX_INPUT_VALUE_BYTES = 1024 * 1024
"""A larger value is a dead letter, whatever the broker lets through."""
MAX_INPUT_MESSAGE_BYTES = MAX_INPUT_VALUE_BYTES + 64 * 1024
"""The broker's bound: the largest readable value with key, headers and the batch's frame."""
MAX_OUTPUT_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_CONTROL_MESSAGE_BYTES = 2 * 1024 * 1024
MAX_KEY_MESSAGE_BYTES = 64 * 1024
KEY_SEGMENT_MS = 60_000
"""The broker starts a new segment of a topic of keys with the first record after so long: it compacts none
that it still writes."""
KEY_COMPACTION_MS = 300_000
"""The broker compacts what was written before so long, however little there is of it."""

SESSION_KEY = "session_id, UTF-8: one session's inputs of every kind meet in one partition"
SOURCE_KEY = "the JSON array [tenant_id, source_id], UTF-8: one owner folds one source's history"
USED_KEY = "the JSON array [tenant_id, agent_id], UTF-8: one owner counts what one agent used"
USUAL_KEY = "the JSON array [tenant_id, agent_id, tool, role, fingerprint], UTF-8"
PROVENANCE_KEY = "the JSON array [tenant_id, uri], UTF-8"
OUTPUT_KEY = "session_id, UTF-8 (absent where none was readable); the partition is the input's"


@dataclass(frozen=True)
class Topic:
    """One topic. `retention_ms` in ms (-1 keeps for ever), `max_message_bytes` as the broker counts it."""

    name: str
    direction: Direction
    ledger: bool
    records: tuple[type[Record], ...]
    key: str
    retention_ms: int
    cleanup: Cleanup
    max_message_bytes: int
    description: str
    single: bool = False  # one partition, whatever the others have: its records have one order

    def config(self) -> dict[str, str]:
        """The topic's configuration on the broker, in Kafka's own names.

        The broker stamps inputs and outputs (LogAppendTime), so that no producer can backdate an input. It
        unpacks inputs, so that the size bound holds for what a worker has to hold in memory. Age alone
        deletes evidence, and never size. A key that was erased lies there until its topic is compacted, so
        that is bound in time.
        """
        config = {
            "cleanup.policy": self.cleanup,
            "retention.ms": str(self.retention_ms),
            "max.message.bytes": str(self.max_message_bytes),
        }
        if self.cleanup == "delete":
            config["retention.bytes"] = "-1"  # whatever the broker's log.retention.bytes is
        if self.direction != "internal" or self.cleanup == "delete":
            config["message.timestamp.type"] = "LogAppendTime"
        if self.direction == "in":
            config["compression.type"] = "uncompressed"
        if self.direction == "keys":
            config["segment.ms"] = str(KEY_SEGMENT_MS)
            config["min.compaction.lag.ms"] = "0"
            config["max.compaction.lag.ms"] = str(KEY_COMPACTION_MS)
            config["file.delete.delay.ms"] = "1000"
        return config

    def real_name(self, prefix: str, app_id: str) -> str:
        """The name on the broker: the prefix and the name; a changelog is named by Faust, after the app."""
        return f"{app_id}-{self.name}" if self.direction == "internal" else f"{prefix}{self.name}"


def _make_input(name: str, record: type[Record], description: str) -> Topic:
    return Topic(
        name=name,
        direction="in",
        ledger=False,
        records=(record,),
        key=SESSION_KEY,
        retention_ms=INPUT_RETENTION_MS,
        cleanup="delete",
        max_message_bytes=MAX_INPUT_MESSAGE_BYTES,
        description=description,
    )


def _make_control(name: str, key: str, description: str) -> Topic:
    """Kept whole and not compacted: a later record under the same key, or a tombstone, is refused by every
    reader, and a compacted topic would lose the revision that it covers (docs/decisions/0004)."""
    return Topic(
        name=name,
        direction="control",
        ledger=False,
        records=(DsseEnvelope,),
        key=key,
        retention_ms=KEEP,
        cleanup="delete",
        max_message_bytes=MAX_CONTROL_MESSAGE_BYTES,
        description=description,
        single=True,
    )


def _make_ledger(name: str, records: tuple[type[Record], ...], description: str) -> Topic:
    return Topic(
        name=name,
        direction="out",
        ledger=True,
        records=records,
        key=OUTPUT_KEY,
        retention_ms=KEEP,
        cleanup="delete",
        max_message_bytes=MAX_OUTPUT_MESSAGE_BYTES,
        description=description,
    )


def _make_released(name: str, record: type[Record], description: str) -> Topic:
    """An output that is no ledger: content, which is not kept for ever."""
    return replace(_make_ledger(name, (record,), description), ledger=False, retention_ms=INPUT_RETENTION_MS)


def _make_internal(name: str, record: type[Record], key: str, description: str, *, cleanup: Cleanup) -> Topic:
    return Topic(
        name=name,
        direction="internal",
        ledger=False,
        records=(record,),
        key=key,
        retention_ms=KEEP if cleanup == "compact" else INPUT_RETENTION_MS,
        cleanup=cleanup,
        max_message_bytes=MAX_INPUT_MESSAGE_BYTES,
        description=description,
    )


CATALOG: tuple[Topic, ...] = (
    _make_input(ACTIONS, ProposedAction, "Actions that agents want to carry out."),
    _make_input(OUTCOMES, ActionOutcome, "What executed actions really did."),
    _make_input(MEMORY_WRITES, ProposedMemoryWrite, "Memories that agents want to keep."),
    _make_input(RETRIEVALS, ProposedRetrieval, "Items that agents are about to read."),
    _make_input(REPORTED, RetrievalReport, "What stores say they really returned, for the coverage figure."),
    _make_input(
        REVIEWS, ReviewDecision, "Signed decisions of people on escalations and quarantined memories."
    ),
    _make_input(MANDATES, TaskMandate, "Signed mandates: what agents were asked to do in their sessions."),
    _make_control(BUNDLES, "id@revision, UTF-8", "Signed policy and quality bundles, every revision."),
    _make_control(
        REGISTRY,
        "kind/id@revision, UTF-8",
        "Signed entries of the registry, every revision: who and what is known, and whose signature counts.",
    ),
    _make_ledger(
        VERDICTS,
        (Verdict, ResolvedVerdict),
        "One verdict per proposed action, and one more for each that a person approved.",
    ),
    _make_ledger(
        ESCALATIONS,
        (*OF_ACTIONS, RetrievalEscalationOpened, *OF_ITEMS, *OF_GRANTS),
        "Actions and denied items that wait for a person, and how the waiting ended.",
    ),
    _make_ledger(
        SESSION_EVENTS,
        (SessionFolded, ReservationSettled, InputRefused, RetrievalReported, MandateRecorded),
        "What changed a session's totals outside a verdict, inputs refused for an unknown subject, how far "
        "reported retrievals are covered by decisions, and the mandates that count.",
    ),
    _make_ledger(
        POLICY_EVENTS,
        (PolicyInForce,),
        "Which policy was in force in each partition, from each start of its worker and each change on.",
    ),
    _make_ledger(DEAD_LETTERS, (DeadLetter,), "Inputs that could not be read, with the place of the error."),
    _make_ledger(MEMORY_DECISIONS, (MemoryDecision,), "One decision per proposed memory write."),
    _make_ledger(
        QUARANTINE,
        (QuarantineEntered, QuarantineApproved, QuarantineRejected, QuarantineExpired, QuarantineEvicted),
        "Memories that wait for a reviewer, and how the waiting ended.",
    ),
    _make_ledger(QUALITY_DECISIONS, (QualityDecision,), "One decision per item of a retrieval."),
    _make_ledger(ALARMS, (Alarm, OutcomeAlarm), "What an operator must see."),
    replace(
        _make_control(
            TREE_HEADS,
            "the head's number, decimal",
            "Signed heads of the Merkle trees over the ledger, numbered by themselves: no worker signs them.",
        ),
        direction="out",
        records=(SignedTreeHead,),
    ),
    Topic(
        name=SUBJECT_KEYS,
        direction="keys",
        ledger=False,
        records=(WrappedKey,),
        key="the key's id, UTF-8; a tombstone erases it",
        retention_ms=KEEP,
        cleanup="compact",
        max_message_bytes=MAX_KEY_MESSAGE_BYTES,
        description="Wrapped keys with which personal data is sealed, one for each person.",
        single=True,
    ),
    _make_released(
        ADMITTED,
        AdmittedMemory,
        "Content of allowed and approved memories, each once, for the store that keeps it.",
    ),
    _make_released(
        SERVED, ServedRetrieval, "Retrieved items as the agent may see them, with structured flags."
    ),
    _make_internal(
        SOURCE_FEEDBACK,
        SourceFeedback,
        SOURCE_KEY,
        "What was learnt of memory sources, on its way to the owner of each source's history.",
        cleanup="delete",
    ),
    _make_internal(
        SOURCE_HISTORIES,
        SourceHistory,
        SOURCE_KEY,
        "Every memory source's history, which all workers read.",
        cleanup="compact",
    ),
    _make_internal(
        DESTINATION_USES,
        DestinationUsed,
        USED_KEY,
        "Destinations that agents used, known otherwise, on their way to the owner of each count.",
        cleanup="delete",
    ),
    _make_internal(
        USUAL_DESTINATIONS,
        UsualDestination,
        USUAL_KEY,
        "How often each agent used each destination, which all workers read.",
        cleanup="compact",
    ),
    _make_internal(
        PROVENANCE_WANTED,
        ProvenanceWanted,
        PROVENANCE_KEY,
        "Provenance references that decisions came upon, on their way to whoever resolves them.",
        cleanup="delete",
    ),
    _make_internal(
        PROVENANCE_RECORDS,
        ProvenanceRecord,
        PROVENANCE_KEY,
        "Every reference's newest resolution, which all workers read; one in use is renewed daily.",
        cleanup="compact,delete",
    ),
    _make_internal(
        NOTIFICATIONS,
        NotifiedSubject,
        "escalation_id or memory_id, UTF-8; the partition is that of the escalation or the memory",
        "Which messages a notifier has posted of what waits, so that it updates them after a restart.",
        cleanup="compact,delete",
    ),
    Topic(
        name=SESSIONS_CHANGELOG,
        direction="internal",
        ledger=False,
        records=(),
        key="session_id, UTF-8, or a reserved key of the partition; the value is the worker's own format",
        retention_ms=KEEP,
        cleanup="compact",
        max_message_bytes=MAX_OUTPUT_MESSAGE_BYTES,
        description="Changelog of the session table, from which a worker restores its state.",
    ),
)

BY_NAME: dict[str, Topic] = {topic.name: topic for topic in CATALOG}


def get_wire_schema(record: type[Record]) -> str | None:
    """A ledger record's `schema` value ("sluice/verdict/v1"), None for an input record."""
    field = record.model_fields.get("schema_name")
    return None if field is None else str(get_args(field.annotation)[0])
