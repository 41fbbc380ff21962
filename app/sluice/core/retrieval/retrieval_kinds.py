"""The rows of retrievals and of stores' reports in the table of kinds.

If the core itself failed on a retrieval, every item is denied and nothing is served. This holds under shadow
too: the body that made the core raise may be the very body that shadow would let through.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import run_guarded
from sluice.core.foundation.input_record import quality_id, report_event_id
from sluice.core.foundation.refusals import INTERNAL_ERROR as REASON
from sluice.core.foundation.refusals import subject_of
from sluice.core.policy.kind import AnswerKind, CaseKind, DecisionKind, Kind
from sluice.core.quality_bundle.quality_case import QualityCase
from sluice.core.quality_bundle.severity import TIERS
from sluice.core.registry.registry_entries import collect_hashes
from sluice.core.retrieval import retrieval
from sluice.core.retrieval.item_texts import read_names
from sluice.core.retrieval.quality_record import (
    RERUN_FIELDS,
    SCHEMA,
    SCHEMA_VERSION,
    SIGNATURE,
    add_rerun_hash,
)
from sluice.core.retrieval.served import record_nothing_served
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import make_time_records
from sluice.core.state.recent_retrieval import has_mark
from sluice.core.state.session_view import SessionView
from sluice_topics.catalog import QUALITY_DECISIONS, REPORTED, RETRIEVALS, SESSION_EVENTS
from sluice_topics.records import ProposedRetrieval, QualityDecision, RetrievalReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.policy import PointParts, Principal
    from sluice.core.retrieval.item_texts import RequestNames
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState

INTERNAL_ERROR = "INTERNAL_ERROR"
UNKNOWN = (
    "request_id",
    "item_id",
    "content_class",
    "freshness_age_seconds",
    "confidence_score",
    "provenance_uri",
    "trace_id",
    "agent_id",
    "session_id",
    "tenant_id",
    "toolName",
    "tool_category",
    "rollout",
    "would_have_been",
    "override",
    "escalation_id",
    "body_digest",
    "quality_bundle_id",
    "quality_bundle_hash",
    "policy_bundle_id",
    "seen",
)
"""The fields that are null in a record unless something is known of them."""


def deny_unread(parts: PointParts, input_record: InputRecord, dead_letter: OutRecord) -> Decision:
    """Deny a retrieval without reading it; `dead_letter` is its dead letter."""
    body = _deny(parts, input_record, 0)
    return Decision((), [_record_denial(body, subject_of(input_record)), dead_letter])


def deny_fault(
    parts: PointParts,
    input_record: InputRecord,
    retrieval: ProposedRetrieval,
    _: object,
    dead_letter: OutRecord,
) -> Decision:
    """Deny every item of a retrieval that made the core raise."""
    records = [
        _record_denial(
            _deny(parts, input_record, index) | _name_item(parts, retrieval, index), retrieval.session_id
        )
        for index in range(len(retrieval.items))
    ]
    principal = parts.policy.find_principal(retrieval.agent_id)
    denied = [record.body for record in records]
    names = run_guarded(partial(_read_names, retrieval, principal), lambda _: None)
    nothing = record_nothing_served(input_record, retrieval, principal.tenant_id, denied, names)
    return Decision((), [*records, nothing, dead_letter])


def lacks_answers(decision: Mapping[str, Any]) -> bool:
    """A fault loses what a model said of the bodies."""
    return INTERNAL_ERROR in decision["reason_codes"]


def _read_names(retrieval: ProposedRetrieval, principal: Principal) -> RequestNames | None:
    """None where reading them was what made the core raise."""
    classes = frozenset[str]() if principal.quality is None else principal.quality.lookup.classes
    detectors, is_known = principal.bundle.inspector.names, principal.agent is not None
    return read_names(detectors, retrieval, classes, known_agent=is_known)


def _record_denial(body: dict[str, Any], subject: str) -> OutRecord:
    return OutRecord(QUALITY_DECISIONS, "QualityDecision", add_rerun_hash(body), subject)


def _name_item(parts: PointParts, retrieval: ProposedRetrieval, index: int) -> dict[str, Any]:
    """Who asked for what, and what stood in the registry, so that a rerun gets to where the core raised."""
    principal = parts.policy.find_principal(retrieval.agent_id)
    freezes = parts.policy.find_freezes(principal, retrieval.session_id)
    return {
        "request_id": retrieval.request_id,
        "item_id": retrieval.items[index].item_id,
        "trace_id": retrieval.trace_id,
        "agent_id": retrieval.agent_id,
        "session_id": retrieval.session_id,
        "tenant_id": principal.tenant_id,
        "autonomy_tier": principal.tier(retrieval.autonomy_tier),
        "toolName": retrieval.tool_name,
        "tool_category": retrieval.tool_category,
        "enforcement": principal.org.enforcement,
        "quality_bundle_id": principal.quality_asked_for or None,
        "quality_bundle_hash": None if principal.quality is None else principal.quality.hash,
        "policy_bundle_id": principal.bundle_asked_for,
        "bundle_hash": principal.bundle.hash,
        "registry_hashes": collect_hashes(principal.agent, principal.org, *freezes),
    }


def _deny(parts: PointParts, input_record: InputRecord, index: int) -> dict[str, Any]:
    moment = rfc3339(input_record.timestamp_ms)
    signature = None if input_record.signature is None else input_record.signature.make_fields()
    return {
        **({} if signature is None else {SIGNATURE: signature}),
        **dict.fromkeys(UNKNOWN),
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "ledger_event_id": quality_id(input_record.decision_id, index),
        "timestamp": moment,
        "request_hash": input_record.digest,
        "place": index,
        "provenance_hash_verified": False,
        "outcome": "deny",
        "flags_set": [],
        "reason_codes": [INTERNAL_ERROR],
        "reason": REASON,
        "environment": parts.environment,
        "autonomy_tier": TIERS[-1],
        "enforcement": "enforce",
        "stages": [],
        "dimensions": [],
        "findings": [],
        "body_released": False,
        "bundle_hash": parts.policy.default.hash,
        "registry_hashes": {},
        "decided_at": moment,
        "input": input_record.coordinates(),
    }


RETRIEVAL = Kind(
    "retrieval",
    RETRIEVALS,
    ProposedRetrieval,
    attrgetter("session_id"),
    "request_id",
    retrieval.evaluate,
    marked_by="items",
    unread=deny_unread,
    fault=deny_fault,
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
            deny_fault,
            lacks_answers,
        ),
    ),
    case=CaseKind(QualityCase, "item", "retrieval"),
    signer="agent_id",
    by_stages=True,
)

REPORTED_SCHEMA = "sluice/retrieval_reported/v1"
MAX_NAMED = 100


def count_report(
    parts: PointParts, input_record: InputRecord, report: RetrievalReport, state: SessionState, _: Shared
) -> Decision:
    """Count the items of a store's report that have a decision in the session; the session does not change.

    Seed 004, "Coverage metric": the share of retrievals with a recorded decision. What the session has
    forgotten, by time or for want of room, counts as uncovered: coverage may look worse than it is, never
    better. An item that a report names more than once is one item.
    """
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    principal = parts.policy.find_principal(report.agent_id)
    is_known = principal.agent is not None
    previous = view.retrieval(principal.tenant, report.request_id) if is_known else None
    items = dict.fromkeys(report.items)
    uncovered = [item for item in items if previous is None or not has_mark(previous.items, item)]
    body: dict[str, Any] = {
        "schema": REPORTED_SCHEMA,
        "report_event_id": report_event_id(input_record.decision_id),
        "report_id": report.report_id,
        "request_id": report.request_id,
        "agent_id": report.agent_id,
        "session_id": report.session_id,
        "tenant_id": principal.tenant_id,
        "autonomy_tier": principal.tier(report.autonomy_tier) if previous is None else previous.tier,
        "reported_by": report.reported_by,
        "reported": len(items),
        "covered": len(items) - len(uncovered),
        "uncovered": uncovered[:MAX_NAMED],
        "decided_at": rfc3339(input_record.timestamp_ms),
        "input": input_record.coordinates(),
    }
    records = [
        *make_time_records(view),
        OutRecord(SESSION_EVENTS, "RetrievalReported", body, report.session_id),
    ]
    return Decision(() if state.gone else view.changes(), records)


REPORT = Kind(
    "report",
    REPORTED,
    RetrievalReport,
    attrgetter("session_id"),
    "report_id",
    count_report,
    marked_by="report_id",
    touches=True,
)
