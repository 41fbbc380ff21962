"""Every record on the wire, one module per kind; only the models say what fields a record has."""

from sluice_topics.records.escalation_events import (
    ApprovalCounted,
    EscalationExpired,
    EscalationOpened,
    EscalationReminded,
    EscalationRerouted,
    EscalationResolved,
    GrantGiven,
    GrantRevoked,
    GrantUsed,
    NotifiedSubject,
    RetrievalApprovalCounted,
    RetrievalEscalationExpired,
    RetrievalEscalationResolved,
)
from sluice_topics.records.inputs import ActionOutcome, DsseEnvelope, ProposedAction, ReviewDecision
from sluice_topics.records.mandates import MandateRecorded, TaskMandate
from sluice_topics.records.memory import AdmittedMemory, MemoryDecision, ProposedMemoryWrite
from sluice_topics.records.memory_events import (
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
from sluice_topics.records.policy_events import PolicyInForce
from sluice_topics.records.retrieval_inputs import ProposedRetrieval, RetrievalReport
from sluice_topics.records.retrievals import (
    Alarm,
    OutcomeAlarm,
    QualityDecision,
    RetrievalEscalationOpened,
    RetrievalReported,
    ServedRetrieval,
)
from sluice_topics.records.session_events import (
    DeadLetter,
    DestinationUsed,
    InputRefused,
    ReservationSettled,
    SessionFolded,
    UsualDestination,
)
from sluice_topics.records.subject_keys import WrappedKey
from sluice_topics.records.tree_heads import SignedTreeHead
from sluice_topics.records.verdicts import ResolvedVerdict, Verdict

__all__ = [
    "ActionOutcome",
    "AdmittedMemory",
    "Alarm",
    "ApprovalCounted",
    "DeadLetter",
    "DestinationUsed",
    "DsseEnvelope",
    "EscalationExpired",
    "EscalationOpened",
    "EscalationReminded",
    "EscalationRerouted",
    "EscalationResolved",
    "GrantGiven",
    "GrantRevoked",
    "GrantUsed",
    "InputRefused",
    "MandateRecorded",
    "MemoryDecision",
    "NotifiedSubject",
    "OutcomeAlarm",
    "PolicyInForce",
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
    "RetrievalApprovalCounted",
    "RetrievalEscalationExpired",
    "RetrievalEscalationOpened",
    "RetrievalEscalationResolved",
    "RetrievalReport",
    "RetrievalReported",
    "ReviewDecision",
    "ServedRetrieval",
    "SessionFolded",
    "SignedTreeHead",
    "SourceFeedback",
    "SourceHistory",
    "TaskMandate",
    "UsualDestination",
    "Verdict",
    "WrappedKey",
]
