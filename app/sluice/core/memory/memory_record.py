"""The MemoryDecision record, field by field as in sluice_topics/records/memory.py; plain dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.foundation.arrival import memory_id
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.memory.memory_seen import NOTHING_SEEN, recorded
from sluice.detection.text_inspection import finding_fields
from sluice_topics.catalog import MEMORY_DECISIONS

if TYPE_CHECKING:
    from sluice.core.foundation.arrival import Arrival
    from sluice.core.memory.gate import Judgement
    from sluice.core.memory.memory_context import WriteContext
    from sluice.core.memory.trust import Trust

SCHEMA = "sluice/memory_decision/v1"
RERUN_FIELDS = (
    "input",
    "bundle_hash",
    "registry_hashes",
    "seen",
    "model_outputs",
    "enforcement",
    "action",
    "shadowAction",
    "reason",
    "trustScore",
    "findings",
    "quality_faults",
    "similarity",
    "analysis",
    "reviewAfterMs",
    "duplicate_of",
    "content_digest",
    "signature",
)
"""What a rerun must get again, in the hash's order; the record's other fields follow from these. `signature`
is there where one was verified."""


def decision_record(
    arrival: Arrival, context: WriteContext, judged: Judgement, shadow: str | None, duplicate_of: str | None
) -> OutRecord:
    """The decision without its place in the chain. `judged.action` is what is published; `shadow` is the
    action that shadow mode hides."""
    held = judged.action == "quarantine" and duplicate_of is None
    review_after = context.bundle.memory.review_after_ms if held else None
    write = context.write
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "memory_id": context.memory_id,
        "write_id": write.write_id,
        "agent_id": write.agent_id,
        "session_id": write.session_id,
        "tenant_id": None if context.agent is None else context.tenant,
        "traceId": write.trace_id,
        "request_id": write.request_id,
        "action": judged.action,
        "shadowAction": shadow,
        "enforcement": context.org.enforcement,
        "reason": judged.reason,
        "trustScore": _trust(judged.trust),
        "findings": [finding_fields(one) for one in judged.findings],
        "quality_faults": [{"field": one.field, "problem": one.problem} for one in judged.faults],
        "similarity": judged.similarity,
        "analysis": judged.analysis,
        "reviewAfterMs": review_after,
        "expires_at": None if review_after is None else rfc3339(context.now_ms + review_after),
        "duplicate_of": duplicate_of,
        "content_digest": context.content_digest,
        "content_characters": len(write.content),
        "policy_bundle_id": context.bundle_asked_for,
        "bundle_hash": context.bundle.hash,
        "registry_hashes": _entries_used(arrival, context),
        "seen": recorded(context.seen),
        "model_outputs": judged.model_outputs,
        "decided_at": rfc3339(arrival.timestamp_ms),
        "input": arrival.coordinates(),
    }
    return OutRecord(
        MEMORY_DECISIONS, "MemoryDecision", hashed(_with_signature(body, arrival)), write.session_id
    )


def _entries_used(arrival: Arrival, context: WriteContext) -> dict[str, str]:
    used = context.entries()
    return used if arrival.signature is None else arrival.signature.entries(used)


def _with_signature(body: dict[str, Any], arrival: Arrival) -> dict[str, Any]:
    signature = None if arrival.signature is None else arrival.signature.recorded()
    return body if signature is None else {**body, "signature": signature}


def unread_record(arrival: Arrival, bundle_hash: str, reason: str, subject: str) -> OutRecord:
    """The rejection of an input that was not read: none of its fields is known."""
    body: dict[str, Any] = dict.fromkeys(
        ("write_id", "agent_id", "session_id", "tenant_id", "traceId", "request_id", "shadowAction")
    )
    body |= dict.fromkeys(("trustScore", "reviewAfterMs", "expires_at", "duplicate_of", "content_digest"))
    body |= {
        "schema": SCHEMA,
        "memory_id": memory_id(arrival.decision_id),
        "action": "reject",
        "enforcement": "enforce",
        "reason": reason,
        "findings": [],
        "quality_faults": [],
        "similarity": {"status": "off"},
        "analysis": {"status": "off"},
        "content_characters": None,
        "policy_bundle_id": None,
        "bundle_hash": bundle_hash,
        "registry_hashes": {},
        "seen": recorded(NOTHING_SEEN),
        "model_outputs": [],
        "decided_at": rfc3339(arrival.timestamp_ms),
        "input": arrival.coordinates(),
    }
    return OutRecord(MEMORY_DECISIONS, "MemoryDecision", hashed(_with_signature(body, arrival)), subject)


def hashed(body: dict[str, Any]) -> dict[str, Any]:
    """The body with its `rerun_hash`: over all inputs of the decision and the decision."""
    body["rerun_hash"] = digest([body[name] for name in RERUN_FIELDS if name in body], finite=True)
    return body


def _trust(trust: Trust | None) -> dict[str, Any] | None:
    if trust is None:
        return None
    return {
        "total": trust.total,
        "uncapped": trust.uncapped,
        "dimensions": trust.dimensions or None,
        "caps": [{"value": value, "by": by} for value, by in trust.caps],
    }
