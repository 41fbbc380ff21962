"""The rows of memory writes and of what is learnt of sources in the table of kinds."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from app.core.foundation.arrival import memory_id
from app.core.memory import faults, write
from app.core.memory.record import RERUN_FIELDS
from app.core.policy.bundle_cases import Case
from app.core.policy.kind import AnswerKind, CaseKind, DecisionKind, Kind
from app.core.state.book import HistoryFolded
from app.core.state.decision import Decision
from app.core.state.history import SourceName, history_record
from topics.catalog import MEMORY_DECISIONS, MEMORY_WRITES, SOURCE_FEEDBACK
from topics.records import MemoryDecision, ProposedMemoryWrite, SourceFeedback

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.policy.policy import PointParts
    from app.core.state.decision import Shared
    from app.core.state.session import SessionState

WRITE = Kind(
    "write",
    MEMORY_WRITES,
    ProposedMemoryWrite,
    attrgetter("session_id"),
    "write_id",
    write.evaluate,
    told_by="write_id",
    unread=faults.unread,
    fault=faults.fault,
    answer=AnswerKind(
        MemoryDecision,
        MEMORY_DECISIONS,
        "memory_id",
        (
            ("seen", "known"),
            ("seen", "room"),
            ("seen", "source", "session_type"),
            ("seen", "source", "last_at"),
        ),
        DecisionKind(
            "memory_decision",
            "decision on a memory",
            "decisions on memories",
            memory_id,
            "write_id",
            RERUN_FIELDS,
            write.judge_again,
            faults.fault,
            faults.kept_no_answers,
        ),
    ),
    case=CaseKind(Case, "write"),
)


def _source_key(feedback: SourceFeedback) -> str:
    return SourceName(feedback.tenant_id, feedback.source_id).key()


def fold_feedback(
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


FEEDBACK = Kind(
    "feedback", SOURCE_FEEDBACK, SourceFeedback, _source_key, "memory_id", fold_feedback, session=None
)
