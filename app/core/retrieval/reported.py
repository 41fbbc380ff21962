"""A store's report of what it returned, held against the decisions that the session remembers.

Seed 004, "Coverage metric": the share of retrievals with a recorded decision. What the session has forgotten,
by time or for want of room, counts as uncovered: coverage may look worse than it is, never better. An item
that a report names more than once is one item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.foundation.arrival import report_event_id
from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.state.decision import Decision
from app.core.state.draft import SessionDraft
from app.core.state.expiry import time_records
from app.core.state.recent_retrieval import has_mark
from topics.catalog import SESSION_EVENTS

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.policy.policy import PointParts
    from app.core.state.decision import Shared
    from app.core.state.session import SessionState
    from topics.records import RetrievalReport

SCHEMA = "sluice/retrieval_reported/v1"
MAX_NAMED = 100


def evaluate(
    parts: PointParts, arrival: Arrival, report: RetrievalReport, state: SessionState, _: Shared
) -> Decision:
    """Count the report's distinct items; the session itself does not change."""
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    principal = parts.policy.principal(report.agent_id)
    is_known = principal.agent is not None
    known = draft.retrieval(principal.tenant, report.request_id) if is_known else None
    items = dict.fromkeys(report.items)
    uncovered = [item for item in items if known is None or not has_mark(known.items, item)]
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "report_event_id": report_event_id(arrival.decision_id),
        "report_id": report.report_id,
        "request_id": report.request_id,
        "agent_id": report.agent_id,
        "session_id": report.session_id,
        "tenant_id": principal.tenant_id,
        "autonomy_tier": principal.tier(report.autonomy_tier) if known is None else known.tier,
        "reported_by": report.reported_by,
        "reported": len(items),
        "covered": len(items) - len(uncovered),
        "uncovered": uncovered[:MAX_NAMED],
        "decided_at": rfc3339(arrival.timestamp_ms),
        "input": arrival.coordinates(),
    }
    records = [*time_records(draft), OutRecord(SESSION_EVENTS, "RetrievalReported", body, report.session_id)]
    return Decision(None if state.gone else draft.transition(), records)
