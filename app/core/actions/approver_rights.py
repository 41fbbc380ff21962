"""Who may answer an escalation, and with what: one order of checks for actions and for retrievals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.standing_grants import object_to_grant
from app.core.foundation.refusals import Objection
from app.core.registry.keys import signed_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.foundation.arrival import Arrival
    from app.core.registry.registry import Registry
    from app.core.registry.registry_entries import Approver
    from app.core.state.escalation import Escalation, Vote
    from topics.records import ReviewDecision

APPROVE, DENY = "approve", "deny"
SHORTEST_REASON = 10
"""Characters of the justification with which a retrieval is approved."""
ROLES: Mapping[str, frozenset[str]] = {"approver": frozenset({"approver", "vp"}), "vp": frozenset({"vp"})}
"""The roles that may answer, by the required one."""


def object_to_review(
    registry: Registry, arrival: Arrival, review: ReviewDecision, escalation: Escalation | None
) -> Objection | None:
    """Why an answer to an escalation does not count; None: it does."""
    if escalation is None or escalation.session_id != review.session_id:
        return unknown(review)
    if review.decision not in (APPROVE, DENY):
        return Objection("wrong_decision", "an escalation is approved or denied; reject answers a memory")
    if review.decision == DENY and (review.parameters is not None or review.grant is not None):
        return Objection("wrong_decision", "parameters and grants go with an approval")
    if review.digest != escalation.digest:
        return Objection("wrong_digest", "the answer is to another input than the one that waits")
    if escalation.is_of_items and review.decision == APPROVE:
        against = _object_to_release(review)
        if against is not None:
            return against
    return _object_to_answer(registry, arrival, review, escalation)


def _object_to_release(review: ReviewDecision) -> Objection | None:
    """Seed 004: an override has a reason that a later reader understands."""
    if review.parameters is not None or review.grant is not None:
        return Objection("wrong_decision", "parameters and grants go with an action")
    if len(review.justification) < SHORTEST_REASON:
        return Objection("short_justification", f"of fewer than {SHORTEST_REASON} characters")
    return None


def _object_to_answer(
    registry: Registry, arrival: Arrival, review: ReviewDecision, escalation: Escalation
) -> Objection | None:
    against = _object_to_signer(registry, arrival, review, escalation)
    asked_for = None if against is not None else object_to_grant(arrival, review, escalation)
    if asked_for is not None:
        return Objection("wrong_grant", asked_for)
    if against is None and not escalation.is_pending:
        return Objection("already_ended", escalation.told())
    if against is None and any(one.approver_id == review.approver_id for one in escalation.votes):
        return Objection("already_counted", "this approver's approval is counted already")
    return against


def _object_to_signer(
    registry: Registry, arrival: Arrival, review: ReviewDecision, escalation: Escalation
) -> Objection | None:
    approver = registry.approvers.get(review.approver_id)
    if approver is None or not _in_bounds(approver, arrival, escalation):
        return Objection(
            "not_an_approver", f"no approver of this tenant and tool in force: {review.approver_id}"
        )
    if not approver.roles & ROLES[escalation.role]:
        return Objection("wrong_role", f"the escalation needs the role {escalation.role}")
    agent = registry.agents.get(escalation.agent_id)
    if review.approver_id in (escalation.agent_id, None if agent is None else agent.owner):
        return Objection("own_action", "neither an agent nor its owner answers its escalations")
    if not escalation.has_reached(approver.groups, arrival.timestamp_ms):
        return Objection("wrong_group", f"{approver.id} is of no group that has the escalation yet")
    if not signed_by(approver.public_key, review):
        return Objection("wrong_signature", "the signature is not the approver's over this answer")
    return None


def _in_bounds(approver: Approver, arrival: Arrival, escalation: Escalation) -> bool:
    with_tool = approver.tools is None or escalation.tool in approver.tools
    return with_tool and approver.acts_for(escalation.tenant, arrival.timestamp_ms)


def may_still_approve(
    approvers: Mapping[str, Approver],
    arrival: Arrival,
    escalation: Escalation,
    vote: Vote,
    role: str | None = None,
) -> bool:
    """Whether a counted approval still counts under the registry of now. `role`: the one that is needed now;
    None: the one that was."""
    approver = approvers.get(vote.approver_id)
    return (
        approver is not None
        and _in_bounds(approver, arrival, escalation)
        and escalation.has_reached(approver.groups, arrival.timestamp_ms)
        and bool(approver.roles & ROLES[role or escalation.role])
    )


def unknown(review: ReviewDecision) -> Objection:
    """To an answer to what does not wait."""
    return Objection("unknown_subject", f"no escalation of this session is known under {review.subject_id}")
