"""The row of reviews in the table of kinds: people's signed answers, each by what its subject is."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sluice.core.actions import approvals, revocation
from sluice.core.actions.resolution import FORM
from sluice.core.actions.standing_grants import GRANT_PREFIX
from sluice.core.actions.verdict import RERUN_FIELDS
from sluice.core.foundation.input_record import escalation_id, make_resolved_id
from sluice.core.memory import reviews
from sluice.core.policy.kind import AnswerKind, DecisionKind, Kind
from sluice.core.state.decision import Decision
from sluice_topics.catalog import ACTIONS, RETRIEVALS, REVIEWS, VERDICTS
from sluice_topics.records import ResolvedVerdict, ReviewDecision

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.policy import PointParts
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState

_ESCALATED = (escalation_id(ACTIONS), escalation_id(RETRIEVALS))


def evaluate(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, state: SessionState, shared: Shared
) -> Decision | Generator[Request, Answer, Decision]:
    """Decide on a person's answer: to an escalated action or retrieval, to a standing grant, or to a memory
    in quarantine."""
    if review.subject_id.startswith(GRANT_PREFIX):
        return revocation.evaluate(parts, input_record, review, state, shared)
    answered = approvals.evaluate if review.subject_id.startswith(_ESCALATED) else reviews.evaluate
    return answered(parts, input_record, review, state, shared)


def _fault_again(
    parts: PointParts,
    input_record: InputRecord,
    review: ReviewDecision,
    recorded: Mapping[str, Any],
    dead_letter: OutRecord,
) -> Decision:
    """A review that makes the core raise is refused and gets no verdict."""
    del parts, input_record, review, recorded
    return Decision((), [dead_letter])


def _lacks_answers(recorded: Mapping[str, Any]) -> bool:
    del recorded
    return False


REVIEW = Kind(
    "review",
    REVIEWS,
    ReviewDecision,
    attrgetter("session_id"),
    "subject_id",
    evaluate,
    marked_by="subject_id",
    touches=True,
    answer=AnswerKind(
        ResolvedVerdict,
        VERDICTS,
        "verdict_id",
        (("session",),),
        DecisionKind(
            "resolved_verdict",
            "resolved verdict",
            "resolved verdicts",
            make_resolved_id,
            "action_id",
            (*RERUN_FIELDS, *FORM.hashed),
            approvals.judge_again,
            _fault_again,
            _lacks_answers,
        ),
    ),
)
