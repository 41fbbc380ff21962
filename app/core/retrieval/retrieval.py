"""A proposed retrieval, from the session's values to a decision: every item judged, then remembered.

Nothing is asked of anybody on this way (seed 004, "Deployment": no network hop on the read path): provenance
is judged on what is recorded of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.decision import Decision
from app.core.draft import SessionDraft
from app.core.expiry import time_records
from app.core.recent_retrieval import RecentRetrieval, item_mark
from app.core.retrieval.context import assess, barred
from app.core.retrieval.escalation import escalation_of, opened
from app.core.retrieval.judgement import judge
from app.core.retrieval.record import common_to, decision_record
from app.core.retrieval.served import served
from app.core.retrieval.wanted import wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.arrival import Arrival
    from app.core.decision import OutRecord
    from app.core.memory.shared import Shared
    from app.core.point import PointParts
    from app.core.retrieval.context import RetrievalContext
    from app.core.retrieval.judgement import Judged
    from app.core.session import SessionState
    from topics.records import ProposedRetrieval


def evaluate(
    parts: PointParts, arrival: Arrival, retrieval: ProposedRetrieval, state: SessionState, shared: Shared
) -> Decision:
    """Decide on every item. A request that comes again is judged again: an item may have grown old."""
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    context = assess(parts, arrival, retrieval, shared)
    judged = _judged(context)
    escalation = escalation_of(arrival, context, judged)
    common = common_to(arrival, context)
    decided = [
        decision_record(common, item, one, place, escalation)
        for place, (item, one) in enumerate(zip(retrieval.items, judged, strict=True))
    ]
    records = [*time_records(draft), *decided]
    bodies = [record.body for record in decided]
    if escalation is not None:
        records.append(_escalated(arrival, context, escalation, bodies))
    records.append(served(arrival, context, list(zip(bodies, judged, strict=True))))
    records += _wanted(context, judged)
    _remember(draft, context, judged)
    return Decision(draft.transition(), records)


def evaluate_item(
    parts: PointParts, arrival: Arrival, retrieval: ProposedRetrieval, place: int, shared: Shared
) -> dict[str, Any]:
    """The decision record of the item at `place` alone: what a rerun asks for. Raises IndexError."""
    context = assess(parts, arrival, retrieval, shared)
    item = retrieval.items[place]
    one = judge(context, place, barred(context))
    escalation = escalation_of(arrival, context, [one])
    return decision_record(common_to(arrival, context), item, one, place, escalation).body


def _judged(context: RetrievalContext) -> list[Judged]:
    stopped = barred(context)
    return [judge(context, place, stopped) for place in range(len(context.retrieval.items))]


def _escalated(
    arrival: Arrival, context: RetrievalContext, escalation: str, bodies: Sequence[dict[str, Any]]
) -> OutRecord:
    denied = [body for body in bodies if body["escalation_id"] is not None]
    ttl_ms = 0 if context.quality is None else context.quality.escalation_ttl_ms
    return opened(arrival, context, escalation, denied, ttl_ms)


def _wanted(context: RetrievalContext, judged: Sequence[Judged]) -> list[OutRecord]:
    """Each reference once."""
    uris = {
        item.provenance_uri: None
        for item, one in zip(context.retrieval.items, judged, strict=True)
        if one.check is not None and one.check.wanted
    }
    return [wanted(context.tenant, uri, "retrieval", context.now_ms) for uri in uris]


def _remember(draft: SessionDraft, context: RetrievalContext, judged: Sequence[Judged]) -> None:
    """The session keeps which items were decided on, and the flags of those that were let through."""
    items = context.retrieval.items
    marks = "".join([item_mark(item.item_id) for item in items])
    remembered = RecentRetrieval(context.tier, marks, draft.now)
    draft.remember_retrieval(context.tenant, context.retrieval.request_id, remembered)
    for item, one in zip(items, judged, strict=True):
        if one.flags and one.outcome != "deny":
            draft.remember_flags(context.tenant, item.item_id, one.flags)
