"""Revoking a standing grant: any approver in force for its tenant and tool may sign a denial of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.actions.approvals import refuse
from sluice.core.actions.approver_rights import DENY
from sluice.core.actions.standing_grants import ROLES, make_revoked_record
from sluice.core.foundation.refusals import Objection
from sluice.core.registry.review_signing import make_signer_fields, object_to_signature
from sluice.core.state.book import GrantKept
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import make_time_records
from sluice.core.state.session_view import SessionView

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.policy import PointParts
    from sluice.core.state.decision import Shared
    from sluice.core.state.grant import StandingGrant
    from sluice.core.state.session import SessionState
    from sluice_topics.records import ReviewDecision


def evaluate(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, state: SessionState, shared: Shared
) -> Decision:
    """Decide on a revocation."""
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    grant = shared.book.grant(review.subject_id)
    against = _object_to(parts, input_record, review, grant)
    if against is not None or grant is None:
        return refuse(input_record, review, view, against or _unknown(review))
    record = make_revoked_record(grant, input_record, make_signer_fields(parts.policy.registry, review))
    after = () if view.state.gone else view.changes()
    return Decision(after, [*make_time_records(view), record], (GrantKept(grant._replace(uses=0)),))


def _object_to(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, grant: StandingGrant | None
) -> Objection | None:
    if grant is None or grant.session_id != review.session_id:
        return _unknown(review)
    if review.decision != DENY:
        return Objection("wrong_decision", "a grant is only denied: that revokes it")
    if review.digest != grant.digest:
        return Objection("wrong_digest", "the answer is to another grant than the one that stands")
    return _object_to_signer(parts, input_record, review, grant)


def _object_to_signer(
    parts: PointParts, input_record: InputRecord, review: ReviewDecision, grant: StandingGrant
) -> Objection | None:
    approver = parts.policy.registry.approvers.get(review.approver_id)
    if approver is None or not approver.acts_for(grant.tenant, input_record.timestamp_ms):
        return Objection("not_an_approver", f"no approver of this tenant in force: {review.approver_id}")
    if not approver.roles & ROLES or (approver.tools is not None and grant.tool not in approver.tools):
        return Objection("wrong_role", "an approver for this tool revokes a grant")
    registry, within = parts.policy.registry, (grant.tenant, "approver")
    return object_to_signature(registry, review, approver, within, input_record.timestamp_ms)


def _unknown(review: ReviewDecision) -> Objection:
    return Objection("unknown_subject", f"no grant of this session stands under {review.subject_id}")
