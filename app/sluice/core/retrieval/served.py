"""ServedRetrieval: what the agent may see. Written with the decisions, in one transaction; no ledger record.

Flags are fields of their own beside the body, never words inside it (seed 004, "Downstream consumers ignore
flags").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import make_served_id
from sluice.core.quality_bundle.severity import SEVERITY
from sluice.core.retrieval.item_texts import ITEM_FIELDS, NO_FIELDS, REQUEST_FIELDS, withhold_id
from sluice.core.retrieval.judgement import choose_content_outcome
from sluice.detection.text_inspection import ContentInspection
from sluice_topics.catalog import SERVED
from sluice_topics.records.retrievals import QualityFlag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.retrieval.item_texts import RequestNames
    from sluice.core.retrieval.judgement import Judged
    from sluice.core.retrieval.plan import RetrievalContext
    from sluice.core.retrieval.quality_record import Common
    from sluice_topics.records import ProposedRetrieval

SCHEMA = "sluice/served_retrieval/v1"
FLAGS: tuple[QualityFlag, ...] = get_args(QualityFlag)

_NO_FLAGS = dict.fromkeys(FLAGS, False)


def record_served(
    context: RetrievalContext, common: Common, bodies: Sequence[dict[str, Any]], judged: Sequence[Judged]
) -> OutRecord:
    """`bodies`: each item's decision record, `judged` what came of it, in the request's order; `common`: what
    the records share."""
    items, denied = [], []
    for body, item in zip(bodies, judged, strict=True):
        unsafe = context.names.items[item.position].unsafe
        if item.outcome == "deny":
            denied.append(_describe_item(withhold(body), unsafe))
        else:
            items.append(_item(body, item, unsafe))
    shared = common.fields
    request = context.names.request
    is_quiet = not request.findings and request.inconclusive is None
    unsafe_of_request = NO_FIELDS if is_quiet else _unsafe_of_request(context)
    return _record(common.decision_id, shared, items, denied, unsafe_of_request)


def record_nothing_served(
    input_record: InputRecord,
    retrieval: ProposedRetrieval,
    tenant: str | None,
    denied: Sequence[dict[str, Any]],
    names: RequestNames | None,
) -> OutRecord:
    """The record for the agent where every item was denied; `denied` are their decision records. `names`
    None: they could not be read, and none is released."""
    every = frozenset(ITEM_FIELDS)
    unsafe = [every] * len(denied) if names is None else [names_of.unsafe for names_of in names.items]
    items = [_describe_item(withhold(record), among) for record, among in zip(denied, unsafe, strict=True)]
    of_request = frozenset(REQUEST_FIELDS) if names is None else names.unsafe
    shared = {
        "request_id": retrieval.request_id,
        "agent_id": retrieval.agent_id,
        "session_id": retrieval.session_id,
        "tenant_id": tenant,
        "trace_id": retrieval.trace_id,
        "decided_at": rfc3339(input_record.timestamp_ms),
        "input": input_record.coordinates(),
    }
    return _record(input_record.decision_id, shared, [], items, of_request)


def _unsafe_of_request(context: RetrievalContext) -> frozenset[str]:
    """The request's own fields that are not released."""
    unsafe, plan, read = context.names.unsafe, context.plan, context.names.request
    if plan.quality is None or not unsafe:
        return unsafe
    action, _ = choose_content_outcome(
        plan.quality, plan.tier, ContentInspection(read.findings, 0, 0, 0, read.inconclusive)
    )
    let_through = plan.is_shadowed or SEVERITY[action] < SEVERITY["downgrade"]
    return NO_FIELDS if let_through else unsafe


def _record(
    decision_id: str,
    shared: Mapping[str, Any],
    items: list[dict[str, Any]],
    denied: Sequence[dict[str, Any]],
    unsafe: frozenset[str],
) -> OutRecord:
    """`shared`: the fields that it has in common with the items' decisions, and more."""
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "served_id": make_served_id(decision_id),
        "request_id": shared["request_id"],
        "agent_id": shared["agent_id"],
        "session_id": shared["session_id"],
        "tenant_id": shared["tenant_id"],
        "trace_id": shared["trace_id"],
        "items": items,
        "withheld": denied,
        "decided_at": shared["decided_at"],
        "input": shared["input"],
    }
    for field in unsafe:
        if body[field] is not None:
            body[field] = withhold_id(body[field])
    return OutRecord(SERVED, "ServedRetrieval", body, body["session_id"])


def withhold(record: dict[str, Any]) -> dict[str, Any]:
    """A denied item: that it exists and why it is not here."""
    return {
        "item_id": record["item_id"],
        "ledger_event_id": record["ledger_event_id"],
        "reason_codes": record["reason_codes"],
        "escalation_id": record["escalation_id"],
    }


def _item(record: dict[str, Any], judged: Judged, unsafe: frozenset[str]) -> dict[str, Any]:
    item = {
        "item_id": record["item_id"],
        "ledger_event_id": record["ledger_event_id"],
        "outcome": judged.outcome,
        "flags": {flag: flag in judged.flags for flag in FLAGS} if judged.flags else _NO_FLAGS,
        "content_class": record["content_class"],
        "freshness_age_seconds": record["freshness_age_seconds"],
        "confidence_score": record["confidence_score"],
        "provenance_uri": record["provenance_uri"],
        "body": judged.body.served.value if record["body_released"] else None,
    }
    if judged.unjudged is not None:
        item["unjudged"] = judged.unjudged
    return _describe_item(item, unsafe) if unsafe and judged.outcome == "downgrade" else item


def _describe_item(item: dict[str, Any], unsafe: frozenset[str]) -> dict[str, Any]:
    """The item without what may not be read of it: its id as a digest, another text not at all."""
    for field in unsafe & item.keys():
        item[field] = withhold_id(item[field]) if field == "item_id" else None
    return item
