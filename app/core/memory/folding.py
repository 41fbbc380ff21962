"""Folding what was learnt of a source into its history: the owner's side of app/core/state/history.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.state.book import HistoryFolded
from app.core.state.decision import Decision
from app.core.state.history import SourceName, history_record

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.policy.policy import PointParts
    from app.core.state.decision import Shared
    from app.core.state.session import SessionState
    from topics.records import SourceFeedback


def evaluate(
    parts: PointParts, arrival: Arrival, feedback: SourceFeedback, _: SessionState, shared: Shared
) -> Decision:
    """The history's next revision, for the table and for all workers.

    Source ids come from outside, so first sights are kept up to a bound for each tenant; reviews always
    are.
    """
    name = SourceName(feedback.tenant_id, feedback.source_id)
    before = shared.book.history(name)
    full = shared.book.histories[feedback.tenant_id] >= parts.limits.max_source_histories
    if feedback.verdict == "seen" and (full or before.type is not None):
        return Decision(None)
    after = before.folded(feedback.type, feedback.verdict)
    return Decision(None, [history_record(name, after, arrival.timestamp_ms)], (HistoryFolded(name, after),))
