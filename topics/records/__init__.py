"""Every record on the wire, one module per kind; only the models say what fields a record has."""

from topics.records.alarms import Alarm, OutcomeAlarm
from topics.records.control import DsseEnvelope
from topics.records.escalations import EscalationExpired, EscalationOpened, EscalationResolved
from topics.records.inputs import ActionOutcome, ProposedAction, ReviewDecision
from topics.records.memory import AdmittedMemory, MemoryDecision, ProposedMemoryWrite
from topics.records.provenance import ProvenanceRecord, ProvenanceWanted
from topics.records.quarantine import (
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
)
from topics.records.retrieval_inputs import ProposedRetrieval, RetrievalReport
from topics.records.retrievals import (
    QualityDecision,
    RetrievalEscalationOpened,
    RetrievalReported,
    ServedRetrieval,
)
from topics.records.session_events import DeadLetter, InputRefused, ReservationSettled, SessionFolded
from topics.records.sources import SourceFeedback, SourceHistory
from topics.records.verdict import Verdict

__all__ = [
    "ActionOutcome",
    "AdmittedMemory",
    "Alarm",
    "DeadLetter",
    "DsseEnvelope",
    "EscalationExpired",
    "EscalationOpened",
    "EscalationResolved",
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
