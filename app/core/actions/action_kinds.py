"""The rows of actions and their outcomes in the table of kinds."""

from __future__ import annotations

from operator import attrgetter

from app.core.actions import action_faults, outcomes, proposal
from app.core.actions.verdict import RERUN_FIELDS
from app.core.foundation.arrival import verdict_id
from app.core.policy.bundle_cases import Case
from app.core.policy.kind import AnswerKind, CaseKind, DecisionKind, Kind
from topics.catalog import ACTIONS, OUTCOMES, SESSION_EVENTS, VERDICTS
from topics.records import ActionOutcome, ProposedAction, ReservationSettled, Verdict

ACTION = Kind(
    "action",
    ACTIONS,
    ProposedAction,
    attrgetter("session_id"),
    "action_id",
    proposal.evaluate,
    unread=action_faults.unread,
    fault=action_faults.fault,
    answer=AnswerKind(
        Verdict,
        VERDICTS,
        "verdict_id",
        (("session",),),
        DecisionKind(
            "verdict",
            "verdict",
            "verdicts",
            verdict_id,
            "action_id",
            RERUN_FIELDS,
            proposal.judge_again,
            action_faults.fault_again,
            action_faults.kept_no_answers,
        ),
    ),
    case=CaseKind(Case, "action", "action"),
    signer="agent_id",
)
OUTCOME = Kind(
    "outcome",
    OUTCOMES,
    ActionOutcome,
    attrgetter("session_id"),
    "action_id",
    outcomes.evaluate,
    marked_by="reported_by",
    answer=AnswerKind(
        ReservationSettled,
        SESSION_EVENTS,
        "outcome_id",
        (
            ("tenant_id",),
            ("action_id",),
            ("reserved",),
            ("actual",),
            ("aggregateRowsAffected",),
            ("lowered",),
        ),
    ),
    signer="reported_by",
)
