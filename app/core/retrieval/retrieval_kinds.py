"""The rows of retrievals and of stores' reports in the table of kinds."""

from __future__ import annotations

from operator import attrgetter

from app.core.foundation.arrival import quality_id
from app.core.policy.kind import AnswerKind, CaseKind, DecisionKind, Kind
from app.core.quality_bundle.quality_models import QualityCase
from app.core.retrieval import reported, retrieval, retrieval_faults
from app.core.retrieval.quality_record import RERUN_FIELDS
from topics.catalog import QUALITY_DECISIONS, REPORTED, RETRIEVALS
from topics.records import ProposedRetrieval, QualityDecision, RetrievalReport

RETRIEVAL = Kind(
    "retrieval",
    RETRIEVALS,
    ProposedRetrieval,
    attrgetter("session_id"),
    "request_id",
    retrieval.evaluate,
    marked_by="items",
    unread=retrieval_faults.unread,
    fault=retrieval_faults.fault,
    answer=AnswerKind(
        QualityDecision,
        QUALITY_DECISIONS,
        "ledger_event_id",
        decision=DecisionKind(
            "quality_decision",
            "decision on a retrieved item",
            "decisions on retrieved items",
            quality_id,
            "item_id",
            RERUN_FIELDS,
            retrieval.judge_again,
            retrieval_faults.fault,
            retrieval_faults.kept_no_answers,
        ),
    ),
    case=CaseKind(QualityCase, "item", "retrieval"),
    signer="agent_id",
)
REPORT = Kind(
    "report",
    REPORTED,
    RetrievalReport,
    attrgetter("session_id"),
    "report_id",
    reported.evaluate,
    marked_by="report_id",
    touches=True,
)
