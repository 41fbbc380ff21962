"""The rows of memory writes, of reviews and of what is learnt of sources in the table of kinds."""

from __future__ import annotations

from operator import attrgetter

from app.core.foundation.arrival import memory_id
from app.core.memory import faults, folding, reviews, write
from app.core.memory.record import RERUN_FIELDS
from app.core.policy.bundle_cases import Case
from app.core.policy.kind import AnswerKind, CaseKind, DecisionKind, Kind
from app.core.state.history import SourceName
from topics.catalog import MEMORY_DECISIONS, MEMORY_WRITES, REVIEWS, SOURCE_FEEDBACK
from topics.records import MemoryDecision, ProposedMemoryWrite, ReviewDecision, SourceFeedback

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
REVIEW = Kind(
    "review",
    REVIEWS,
    ReviewDecision,
    attrgetter("session_id"),
    "subject_id",
    reviews.evaluate,
    told_by="subject_id",
    touches=True,
)


def _source_key(feedback: SourceFeedback) -> str:
    return SourceName(feedback.tenant_id, feedback.source_id).key()


FEEDBACK = Kind(
    "feedback", SOURCE_FEEDBACK, SourceFeedback, _source_key, "memory_id", folding.evaluate, session=None
)
