"""Who may answer an escalation, and with what: one order of checks for actions and for retrievals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.actions.standing_grants import object_to_grant, object_to_lasting_answer
from sluice.core.foundation.refusals import Objection
from sluice.core.registry.review_signing import ANSWERING, may_still_sign, object_to_signature
from sluice.core.state.escalation import parameters_digest

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.registry import Registry
    from sluice.core.state.escalation import Escalation, Vote
    from sluice_topics.records import ReviewDecision

APPROVE, DENY = "approve", "deny"
SHORTEST_REASON = 10
"""Characters of the justification with which a retrieval is approved."""
GRANT_BY_OWN_KEY = "a standing grant needs the approver's own key"
OWN_KEY_NEEDED = "the bundle demands the approver's own key for this tier: sign with it, as in a terminal"


def object_to_review(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, escalation: Escalation | None
) -> Objection | None:
    """Why an answer to an escalation does not count; None: it does."""
    if escalation is None or escalation.session_id != review.session_id:
        return unknown(review)
    if review.decision not in (APPROVE, DENY):
        return Objection("wrong_decision", "an escalation is approved or denied; reject answers a memory")
    if review.decision == DENY and _says_more(review):
        return Objection("wrong_decision", "parameters, grants and days go with an approval")
    if review.digest != escalation.digest:
        return Objection("wrong_digest", "the answer is to another input than the one that waits")
    if escalation.is_of_items and review.decision == APPROVE:
        against = _object_to_release(review)
        if against is not None:
            return against
    return _object_to_answer(registry, input_record, review, escalation)


def _says_more(review: ReviewDecision) -> bool:
    """Whether it has what only the approval of an action may have."""
    return any(extra is not None for extra in (review.parameters, review.grant, review.remember_days))


def _object_to_more(
    input_record: InputRecord, review: ReviewDecision, escalation: Escalation
) -> Objection | None:
    """Why the grant, or the days that an approval asks for, are refused."""
    grant = object_to_grant(input_record, review, escalation)
    if grant is not None:
        return Objection("wrong_grant", grant)
    if review.remember_days is None:
        return None
    lasting = object_to_lasting_answer(escalation.tier, escalation.quorum)
    return None if lasting is None else Objection("cannot_remember", lasting)


def _object_to_release(review: ReviewDecision) -> Objection | None:
    """Seed 004: an override has a reason that a later reader understands."""
    if _says_more(review):
        return Objection("wrong_decision", "parameters, grants and days go with an action")
    if len(review.justification) < SHORTEST_REASON:
        return Objection("short_justification", f"of fewer than {SHORTEST_REASON} characters")
    return None


def _object_to_answer(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, escalation: Escalation
) -> Objection | None:
    against = _object_to_signer(registry, input_record, review, escalation)
    against = against or _object_to_more(input_record, review, escalation)
    if against is None and not escalation.is_pending:
        return Objection("already_ended", escalation.describe_end())
    votes = escalation.votes_with(hash_approved_parameters(review, escalation))
    if against is None and any(vote.approver_id == review.approver_id for vote in votes):
        return Objection("already_counted", "this approver's approval is counted already")
    return against


def hash_approved_parameters(review: ReviewDecision, escalation: Escalation) -> str:
    """The digest of the parameters that an approval is for: the review's own, else those as proposed."""
    return escalation.parameters if review.parameters is None else parameters_digest(review.parameters)


def _object_to_signer(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, escalation: Escalation
) -> Objection | None:
    approver = registry.approvers.get(review.approver_id)
    if approver is None or not lies_in_bounds(approver, input_record, escalation):
        return Objection(
            "not_an_approver", f"no approver of this tenant and tool in force: {review.approver_id}"
        )
    if not approver.roles & ANSWERING[escalation.role]:
        return Objection("wrong_role", f"the escalation needs the role {escalation.role}")
    agent = registry.agents.get(escalation.agent_id)
    if review.approver_id in (escalation.agent_id, None if agent is None else agent.owner):
        return Objection("own_action", "neither an agent nor its owner answers its escalations")
    if not escalation.has_reached(approver.groups, input_record.timestamp_ms):
        return Objection("wrong_group", f"{approver.id} is of no group that has the escalation yet")
    if review.delegate is not None and (escalation.own_key or review.grant is not None):
        return Objection("own_key_needed", OWN_KEY_NEEDED if escalation.own_key else GRANT_BY_OWN_KEY)
    within = escalation.tenant, escalation.role
    return object_to_signature(registry, review, approver, within, input_record.timestamp_ms)


def lies_in_bounds(approver: Approver, input_record: InputRecord, escalation: Escalation) -> bool:
    with_tool = approver.tools is None or escalation.tool in approver.tools
    return with_tool and approver.acts_for(escalation.tenant, input_record.timestamp_ms)


def object_to_last(
    registry: Registry, input_record: InputRecord, review: ReviewDecision, demanding: Escalation, last: Vote
) -> Objection | None:
    """Why the newest approval does not fulfil what the policy demands by now; None: it does."""
    if demanding.own_key and last.delegate is not None:
        return Objection("own_key_needed", OWN_KEY_NEEDED)
    if not _may_approve(registry, input_record, demanding, last):
        needed = f"the action needs the role {demanding.role} now"
        return Objection("wrong_role", f"{needed}, which {last.approver_id} has not in force")
    return _object_to_more(input_record, review, demanding)


def select_fulfilling(
    registry: Registry, input_record: InputRecord, demanding: Escalation, votes: tuple[Vote, ...]
) -> tuple[Vote, ...]:
    """The approvals that fulfil what the policy demands by now."""
    return tuple(vote for vote in votes if _may_approve(registry, input_record, demanding, vote))


def _may_approve(registry: Registry, input_record: InputRecord, escalation: Escalation, vote: Vote) -> bool:
    approver, at_ms = registry.approvers.get(vote.approver_id), input_record.timestamp_ms
    return (
        approver is not None
        and lies_in_bounds(approver, input_record, escalation)
        and escalation.has_reached(approver.groups, at_ms)
        and bool(approver.roles & ANSWERING[escalation.role])
        and not (escalation.own_key and vote.delegate is not None)
        and may_still_sign(registry, vote.delegate, (escalation.tenant, escalation.role), at_ms)
    )


def unknown(review: ReviewDecision) -> Objection:
    """To an answer to what does not wait."""
    return Objection("unknown_subject", f"no escalation of this session is known under {review.subject_id}")
