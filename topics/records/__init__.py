"""Every record on the wire, one module per kind; only the models say what fields a record has."""

from topics.records.escalation_events import (
    ApprovalCounted,
    EscalationExpired,
    EscalationOpened,
    EscalationResolved,
    GrantGiven,
    GrantRevoked,
    GrantUsed,
)
from topics.records.inputs import ActionOutcome, DsseEnvelope, ProposedAction, ReviewDecision
from topics.records.memory import AdmittedMemory, MemoryDecision, ProposedMemoryWrite
from topics.records.memory_events import (
    ProvenanceRecord,
    ProvenanceWanted,
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
    SourceFeedback,
    SourceHistory,
)
from topics.records.retrieval_inputs import ProposedRetrieval, RetrievalReport
from topics.records.retrievals import (
    Alarm,
    OutcomeAlarm,
    QualityDecision,
    RetrievalEscalationOpened,
    RetrievalReported,
    ServedRetrieval,
)
from topics.records.verdicts import (
    DeadLetter,
    InputRefused,
    ReservationSettled,
    ResolvedVerdict,
    SessionFolded,
    Verdict,
)

__all__ = [
    "ActionOutcome",
    "AdmittedMemory",
    "Alarm",
    "ApprovalCounted",
    "DeadLetter",
    "DsseEnvelope",
    "EscalationExpired",
    "EscalationOpened",
    "EscalationResolved",
    "GrantGiven",
    "GrantRevoked",
    "GrantUsed",
    "InputRefused",
    "MemoryDecision",
    "OutcomeAlarm",
    "ProposedAction",
    "ProposedMemoryWrite",
    "ProposedRetrieval",
    "ProvenanceRecord",
    "ProvenanceWanted",
    "QualityDecision",
    "QuarantineApproved",
    "QuarantineEntered",
    "QuarantineEvicted",
    "QuarantineExpired",
    "QuarantineRejected",
    "ReservationSettled",
    "ResolvedVerdict",
    "RetrievalEscalationOpened",
    "RetrievalReport",
    "RetrievalReported",
    "ReviewDecision",
    "ServedRetrieval",
    "SessionFolded",
    "SourceFeedback",
    "SourceHistory",
    "Verdict",
]
