"""ServedRetrieval: what the agent may see. Written with the decisions, in one transaction; no ledger record.

Flags are fields of their own beside the body, never words inside it (seed 004, "Downstream consumers ignore
flags").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from app.core.clock import rfc3339
from app.core.decision import OutRecord
from app.core.ids import served_id
from topics.catalog import SERVED
from topics.records.retrievals import QualityFlag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.arrival import Arrival
    from app.core.retrieval.context import RetrievalContext
    from app.core.retrieval.judgement import Judged
    from topics.records import ProposedRetrieval

SCHEMA = "sluice/served_retrieval/v1"
FLAGS: tuple[QualityFlag, ...] = get_args(QualityFlag)

_NO_FLAGS = dict.fromkeys(FLAGS, False)


def served(
    arrival: Arrival, context: RetrievalContext, decisions: Sequence[tuple[dict[str, Any], Judged]]
) -> OutRecord:
    """`decisions`: each item's decision record and what came of it, in the request's order."""
    tenant = None if context.agent is None else context.tenant
    items = [_item(record, judged) for record, judged in decisions if judged.outcome != "deny"]
    denied = [record for record, judged in decisions if judged.outcome == "deny"]
    return _record(arrival, context.retrieval, tenant, items, denied)


def nothing_served(
    arrival: Arrival, retrieval: ProposedRetrieval, tenant: str | None, denied: Sequence[dict[str, Any]]
) -> OutRecord:
    """The same where every item was denied; `denied` are their decision records."""
    return _record(arrival, retrieval, tenant, [], denied)


def _record(
    arrival: Arrival,
    retrieval: ProposedRetrieval,
    tenant: str | None,
    items: list[dict[str, Any]],
    denied: Sequence[dict[str, Any]],
) -> OutRecord:
    body = {
        "schema": SCHEMA,
        "served_id": served_id(arrival.decision_id),
        "request_id": retrieval.request_id,
        "agent_id": retrieval.agent_id,
        "session_id": retrieval.session_id,
        "tenant_id": tenant,
        "trace_id": retrieval.trace_id,
        "items": items,
        "withheld": [withheld(record) for record in denied],
        "decided_at": rfc3339(arrival.timestamp_ms),
    }
    return OutRecord(SERVED, "ServedRetrieval", body, retrieval.session_id)


def withheld(record: dict[str, Any]) -> dict[str, Any]:
    """A denied item: that it exists and why it is not here."""
    return {
        "item_id": record["item_id"],
        "ledger_event_id": record["ledger_event_id"],
        "reason_codes": record["reason_codes"],
        "escalation_id": record["escalation_id"],
    }


def _item(record: dict[str, Any], judged: Judged) -> dict[str, Any]:
    return {
        "item_id": record["item_id"],
        "ledger_event_id": record["ledger_event_id"],
        "outcome": judged.outcome,
        "flags": {flag: flag in judged.flags for flag in FLAGS} if judged.flags else _NO_FLAGS,
        "content_class": record["content_class"],
        "freshness_age_seconds": record["freshness_age_seconds"],
        "confidence_score": record["confidence_score"],
        "provenance_uri": record["provenance_uri"],
        "body": judged.body.value if judged.released else None,
    }
