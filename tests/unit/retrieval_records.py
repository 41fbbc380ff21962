"""Good records of the quality gate to vary: a retrieval, its decision, what is served, reported, wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.escalation_records import DELEGATE

if TYPE_CHECKING:
    from collections.abc import Callable

HASH = "sha256:" + "0a" * 32
MOMENT = "2026-11-21T10:00:00.000Z"
URI = "https://example.com/terms"
EVENT = "quality:gate.memory.retrievals.proposed:3:12"
_REQUEST: dict[str, Any] = {"request_id": "r-1", "agent_id": "agent-1", "session_id": "s-1"}
_ESCALATION = "escalation:gate.memory.retrievals.proposed:3:12"


def retrieval(**changed: Any) -> dict[str, Any]:
    """A ProposedRetrieval with every field."""
    item = {
        "item_id": "i-1",
        "content_class": "legal_text",
        "timestamp": "2026-11-20T10:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": URI,
        "provenance_hash": HASH,
        "freshness_assertion": {"asserted_at": "2026-11-20T10:00:00Z", "signature": "c2ln"},
        "body": {"text": "The lease ends in May.", "pages": [1, 2]},
    }
    return {
        **_REQUEST,
        "items": [item, {"item_id": "i-2"}],
        "traceId": "t-1",
        "toolName": "lease.read",
        "tool_category": "payment",
        "autonomy_tier": "bounded",
        **changed,
    }


def report(**changed: Any) -> dict[str, Any]:
    """A RetrievalReport with every field."""
    named = {"report_id": "p-1", "items": ["i-1", "i-2"], "reported_by": "store", "autonomy_tier": "bounded"}
    return {**_REQUEST, **named, **changed}


def ledger_records(linked: Callable[..., dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One good body per kind; `linked` gives the chain's fields."""
    opened = {
        "escalation_id": _ESCALATION,
        "request_hash": HASH,
        "tenant_id": "tenant-1",
        "tool_category": "payment",
        "items": [_withheld()],
        "reason": "freshness: 90000.000 s old; product_pricing may be 86400 s old",
        "required_role": "approver",
        "quorum": 2,
        "opened_at": MOMENT,
        "expires_at": MOMENT,
        "own_key": False,
    }
    waits = {
        **_REQUEST,
        "escalation_id": _ESCALATION,
        "request_hash": HASH,
        "tenant_id": "tenant-1",
        "expires_at": MOMENT,
    }
    answered = {
        **waits,
        "approver_id": "p-1",
        "approver_entry": "approver/p-1@1",
        "approver_hash": HASH,
        "justification": "confirmed by phone",
        "delegate": DELEGATE,
    }
    counted = {**answered, "approval_id": "approval:gate.reviews:3:1", "approvals": 1, "quorum": 2}
    counted |= {"dropped": ["p-2"], "dropped_because": "not_entitled", "own_key": True}
    resolved = {**answered, "decision": "approve", "usable_until": MOMENT, "resolved_at": MOMENT}
    expired = {**waits, "reason": "nobody decided in time", "approvals": 0, "expired_at": MOMENT}
    reported = {
        "report_event_id": "report:gate.memory.retrievals.reported:3:4",
        "report_id": "p-1",
        "tenant_id": "tenant-1",
        "autonomy_tier": "bounded",
        "reported_by": "store",
        "reported": 2,
        "covered": 1,
        "uncovered": ["i-9"],
    }
    return {
        "QualityDecision": linked("sluice/quality_decision/v1", **_REQUEST, **_decision()),
        "RetrievalReported": linked("sluice/retrieval_reported/v1", **_REQUEST, **reported),
        "RetrievalEscalationOpened": linked("sluice/retrieval_escalation_opened/v1", **_REQUEST, **opened),
        "RetrievalApprovalCounted": linked("sluice/retrieval_approval_counted/v1", **counted),
        "RetrievalEscalationResolved": linked("sluice/retrieval_escalation_resolved/v1", **resolved),
        "RetrievalEscalationExpired": linked("sluice/retrieval_escalation_expired/v1", **expired),
        "Alarm": linked("sluice/alarm/v1", **_alarm()),
    }


def other_records() -> dict[str, dict[str, Any]]:
    """One good body per kind that is of no ledger."""
    reference = {"tenant_id": "tenant-1", "uri": URI}
    return {
        "ServedRetrieval": serve(),
        "ProvenanceWanted": {
            "schema": "sluice/provenance_wanted/v1",
            **reference,
            "wanted_by": "retrieval",
            "decided_at": MOMENT,
        },
        "ProvenanceRecord": {
            "schema": "sluice/provenance_record/v1",
            **reference,
            "status": "resolved",
            "resolver": "http",
            "hash": HASH,
            "detail": "",
            "size": 12,
            "etag": '"1"',
            "last_modified": "Fri, 20 Nov 2026 10:00:00 GMT",
            "seen_at": 1_795_255_200_000,
        },
    }


def serve(**changed: Any) -> dict[str, Any]:
    """A ServedRetrieval of a flagged item and a denied one."""
    flags = dict.fromkeys(
        ("low_confidence", "provenance_missing", "provenance_unverified", "content_suspect"), False
    )
    item = {
        "item_id": "i-1",
        "ledger_event_id": EVENT,
        "outcome": "flag",
        "flags": {"stale": True, **flags},
        "content_class": "legal_text",
        "freshness_age_seconds": 86400.5,
        "confidence_score": 0.9,
        "provenance_uri": URI,
        "body": "The lease ends in May.",
    }
    return {
        "schema": "sluice/served_retrieval/v1",
        "served_id": "served:gate.memory.retrievals.proposed:3:12",
        **_REQUEST,
        "tenant_id": "tenant-1",
        "trace_id": "t-1",
        "items": [item],
        "withheld": [_withheld()],
        "decided_at": MOMENT,
        "input": {
            "topic": "gate.memory.retrievals.proposed",
            "partition": 3,
            "offset": 12,
            "timestamp": 1_795_255_200_000,
            "digest": HASH,
        },
        **changed,
    }


def _withheld() -> dict[str, Any]:
    return {
        "item_id": "i-2",
        "ledger_event_id": f"{EVENT}:2",
        "reason_codes": ["FRESHNESS_TTL_EXCEEDED", "PROVENANCE_FAILED"],
        "escalation_id": _ESCALATION,
    }


def _decision() -> dict[str, Any]:
    """Of an item that a person let through."""
    return {
        "schema_version": "1",
        "ledger_event_id": EVENT,
        "timestamp": MOMENT,
        "request_hash": HASH,
        "place": 0,
        "item_id": "i-1",
        "content_class": "legal_text",
        "freshness_age_seconds": 86400.5,
        "confidence_score": 0.9,
        "provenance_uri": URI,
        "provenance_hash_verified": False,
        "quality_bundle_id": "sluice.quality",
        "quality_bundle_hash": HASH,
        "outcome": "flag",
        "flags_set": ["provenance_unverified", "content_suspect"],
        "reason_codes": ["PROVENANCE_FAILED", "CONTENT_UNSAFE"],
        "reason": "provenance: not resolved yet",
        "trace_id": "t-1",
        "tenant_id": "tenant-1",
        "environment": "test",
        "autonomy_tier": "high_privilege",
        "toolName": "lease.read",
        "tool_category": "payment",
        "enforcement": "enforce",
        "rollout": "flag_only",
        "would_have_been": "deny",
        "stages": [
            {"stage": "controls", "outcome": "pass", "reason": None},
            {"stage": "quality", "outcome": "deny", "reason": "provenance: not resolved yet"},
        ],
        "dimensions": [
            {"dimension": "freshness", "passed": True, "outcome": "pass", "detail": "1.000 s old"},
            {"dimension": "provenance", "passed": False, "outcome": "deny", "detail": "not resolved yet"},
        ],
        "findings": [_make_finding()],
        "override": _override(),
        "escalation_id": None,
        "body_digest": HASH,
        "body_released": True,
        "policy_bundle_id": "default",
        "bundle_hash": HASH,
        "registry_hashes": {"agent/agent-1@1": HASH},
        "seen": _make_seen(),
        "signature": None,
        "model_outputs": None,
        "rerun_hash": HASH,
    }


def _override() -> dict[str, Any]:
    return {
        "override_id": "o-1",
        "approver_id": "p-1",
        "expires_at": MOMENT,
        "justification": "checked by telephone",
    }


def _make_seen() -> dict[str, Any]:
    return {
        "status": "unresolvable",
        "resolver": "http",
        "hash": None,
        "seen_at": 1_795_255_100_000,
        "detail": "host not allowed",
    }


def _make_finding() -> dict[str, Any]:
    return {
        "id": "override.ignore",
        "kind": "instruction_override",
        "weight": "strong",
        "form": "plain",
        "reason": "tells to ignore instructions",
        "source": "OWASP LLM01",
        "framed": False,
        "start": 0,
        "end": 9,
        "field": "item_id",
    }


def _alarm() -> dict[str, Any]:
    return {
        "input": None,
        "alarm_id": "alarm:flag_only_overdue:sluice.quality:legal_text:1795255200000:1",
        "kind": "flag_only_overdue",
        "severity": "warn",
        "recipient": "data-owner@example.com",
        "subject": "legal_text",
        "message": "legal_text has been flag-only for too long",
        "since": MOMENT,
        "overdue_since": MOMENT,
        "quality_bundle_id": "sluice.quality",
        "quality_bundle_hash": HASH,
        "raised_at": MOMENT,
    }
