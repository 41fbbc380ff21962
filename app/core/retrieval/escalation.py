"""An escalation of denied items: at high_privilege, for a high-impact tool category, and for nothing else.

Seed 004, "Interaction with HITL": every flag to a person would end in approval fatigue. A person answers with
a signed override (registry kind quality_override), and the agent asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.clock import rfc3339
from app.core.decision import OutRecord
from app.core.ids import escalation_id
from app.core.retrieval.served import withheld
from topics.catalog import ESCALATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.core.arrival import Arrival
    from app.core.retrieval.context import RetrievalContext
    from app.core.retrieval.judgement import Judged

SCHEMA = "sluice/retrieval_escalation_opened/v1"
TIER = "high_privilege"


def escalation_of(arrival: Arrival, context: RetrievalContext, judged: Iterable[Judged]) -> str | None:
    """The id of the escalation that a request opens, None if it opens none."""
    quality, category = context.quality, context.retrieval.tool_category
    if quality is None or context.tier != TIER or (category or "").casefold() not in quality.high_impact:
        return None
    waits = any(one.denied_for_quality for one in judged)
    return escalation_id(arrival.decision_id) if waits else None


def opened(
    arrival: Arrival, context: RetrievalContext, an_id: str, denied: Sequence[dict[str, Any]], ttl_ms: int
) -> OutRecord:
    """RetrievalEscalationOpened; `denied` are the decision records of the items that wait."""
    retrieval, now = context.retrieval, arrival.timestamp_ms
    body = {
        "schema": SCHEMA,
        "escalation_id": an_id,
        "request_id": retrieval.request_id,
        "request_hash": arrival.digest,
        "agent_id": retrieval.agent_id,
        "session_id": retrieval.session_id,
        "tenant_id": context.tenant,
        "tool_category": retrieval.tool_category,
        "items": [withheld(record) for record in denied],
        "reason": denied[0]["reason"],
        "required_role": "approver",
        "opened_at": rfc3339(now),
        "expires_at": rfc3339(now + ttl_ms),
        "decided_at": rfc3339(now),
        "input": arrival.coordinates(),
    }
    return OutRecord(ESCALATIONS, "RetrievalEscalationOpened", body, retrieval.session_id)
