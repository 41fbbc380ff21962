"""Every record on the wire, one module per kind; only the models say what fields a record has."""

from topics.records.control import DsseEnvelope
from topics.records.escalations import EscalationExpired, EscalationOpened, EscalationResolved
from topics.records.inputs import ActionOutcome, ProposedAction, ReviewDecision
from topics.records.session_events import DeadLetter, InputRefused, ReservationSettled, SessionFolded
from topics.records.verdict import Verdict

__all__ = [
    "ActionOutcome",
    "DeadLetter",
    "DsseEnvelope",
    "EscalationExpired",
    "EscalationOpened",
    "EscalationResolved",
    "InputRefused",
    "ProposedAction",
    "ReservationSettled",
    "ReviewDecision",
    "SessionFolded",
    "Verdict",
]
