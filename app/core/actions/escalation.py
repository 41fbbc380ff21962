"""An escalation, opened where someone waits: high_stakes mode under enforcement (seed 001, Gate 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.tier_auth import required_role
from app.core.clock import rfc3339
from app.core.decision import OutRecord
from app.core.ids import escalation_id, verdict_id
from topics.catalog import ESCALATIONS

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext
    from app.core.arrival import Arrival

SCHEMA = "sluice/escalation_opened/v1"


def opened(arrival: Arrival, context: ActionContext, reason: str) -> OutRecord:
    """EscalationOpened, bound to the digest of exactly this action; it expires after the bundle's time."""
    action, now = context.action, arrival.timestamp_ms
    body = {
        "schema": SCHEMA,
        "escalation_id": escalation_id(arrival.decision_id),
        "verdict_id": verdict_id(arrival.decision_id),
        "action_id": action.action_id,
        "agent_id": action.agent_id,
        "session_id": action.session_id,
        "tenant_id": context.tenant,
        "action_digest": arrival.digest,
        "reason": reason,
        "tier": context.tier,
        "required_role": required_role(context.tier),
        "opened_at": rfc3339(now),
        "expires_at": rfc3339(now + context.bundle.escalation_ttl_ms),
        "decided_at": rfc3339(now),
        "input": arrival.coordinates(),
    }
    return OutRecord(ESCALATIONS, "EscalationOpened", body, action.session_id)
