"""Answers where the core itself failed on a retrieval: every item denied, and nothing of it is served.

Also under shadow: what made the core raise may be the very body that would be let through.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from app.core.foundation.arrival import quality_id
from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.foundation.errors import guarded
from app.core.foundation.refusals import INTERNAL_ERROR as REASON
from app.core.foundation.refusals import subject_of
from app.core.quality_bundle.severity import TIERS
from app.core.registry.registry_entries import hashes_of
from app.core.retrieval.context import names_in
from app.core.retrieval.quality_record import SCHEMA, SCHEMA_VERSION, SIGNATURE, hashed
from app.core.retrieval.served import nothing_served
from app.core.state.decision import Decision
from topics.catalog import QUALITY_DECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.foundation.arrival import Arrival
    from app.core.policy.policy import PointParts, Principal
    from app.core.retrieval.names import RequestNames
    from topics.records import ProposedRetrieval

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
"""Null in the record until somebody says otherwise."""


def unread(parts: PointParts, arrival: Arrival, letter: OutRecord) -> Decision:
    """Deny a retrieval without reading it; `letter` is its dead letter."""
    body = _denied(parts, arrival, 0)
    return Decision(None, [_record(body, subject_of(arrival)), letter])


def fault(
    parts: PointParts, arrival: Arrival, retrieval: ProposedRetrieval, _: object, letter: OutRecord
) -> Decision:
    """Deny every item of a retrieval that made the core raise."""
    records = [
        _record(_denied(parts, arrival, place) | _named(parts, retrieval, place), retrieval.session_id)
        for place in range(len(retrieval.items))
    ]
    principal = parts.policy.principal(retrieval.agent_id)
    denied = [record.body for record in records]
    names = guarded(partial(_names, retrieval, principal), lambda _: None)
    nothing = nothing_served(arrival, retrieval, principal.tenant_id, denied, names)
    return Decision(None, [*records, nothing, letter])


def kept_no_answers(decision: Mapping[str, Any]) -> bool:
    """Nobody is asked about an item, so that no fault loses an answer."""
    return INTERNAL_ERROR in decision["reason_codes"]


def _names(retrieval: ProposedRetrieval, principal: Principal) -> RequestNames | None:
    """None where reading them was what made the core raise."""
    return names_in(retrieval, principal)


def _record(body: dict[str, Any], subject: str) -> OutRecord:
    return OutRecord(QUALITY_DECISIONS, "QualityDecision", hashed(body), subject)


def _named(parts: PointParts, retrieval: ProposedRetrieval, place: int) -> dict[str, Any]:
    """Who asked for what, and what stood in the registry, so that a rerun gets to where the core raised."""
    principal = parts.policy.principal(retrieval.agent_id)
    freezes = parts.policy.freezes_of(principal, retrieval.session_id)
    return {
        "request_id": retrieval.request_id,
        "item_id": retrieval.items[place].item_id,
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
        "registry_hashes": hashes_of(principal.agent, principal.org, *freezes),
    }


def _denied(parts: PointParts, arrival: Arrival, place: int) -> dict[str, Any]:
    moment = rfc3339(arrival.timestamp_ms)
    signature = None if arrival.signature is None else arrival.signature.recorded()
    return {
        **({} if signature is None else {SIGNATURE: signature}),
        **dict.fromkeys(UNKNOWN),
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "ledger_event_id": quality_id(arrival.decision_id, place),
        "timestamp": moment,
        "request_hash": arrival.digest,
        "place": place,
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
        "input": arrival.coordinates(),
    }
