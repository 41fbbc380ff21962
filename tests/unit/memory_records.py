"""Good records of the memory gate to vary: the input, its decision, the quarantine's events, the release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.escalation_records import DELEGATE

if TYPE_CHECKING:
    from collections.abc import Callable

HASH = "sha256:" + "0a" * 32
MOMENT = "2026-11-21T10:00:00.000Z"
_IDS: dict[str, Any] = {
    "memory_id": "memory:gate.memory.writes.proposed:3:12",
    "write_id": "w-1",
    "agent_id": "agent-1",
    "session_id": "s-1",
    "tenant_id": "tenant-1",
}
_HELD = {
    **_IDS,
    "source_id": "crm",
    "source_type": "user",
    "content_digest": HASH,
    "held": "gate.memory.writes.proposed:3:12",
    "trust": 0.65,
    "entered_at": MOMENT,
    "expires_at": MOMENT,
}
_REVIEWED = {
    "approver_id": "p-1",
    "approver_entry": "approver/p-1@1",
    "approver_hash": HASH,
    "justification": "read it",
    "delegate": DELEGATE,
}

_TRUST = {
    "total": 0.65,
    "uncapped": 0.845,
    "dimensions": {
        "sourceReliability": 0.7,
        "contentConsistency": 1,
        "temporalCoherence": 0.8,
        "instructionAlignment": 0.8,
    },
    "caps": [{"value": 0.65, "by": "unknown_parent"}],
}
_SEEN = {
    "known": {"digest": HASH, "offset": 3, "action": "allow", "shadow": None},
    "room": True,
    "source": {
        "type": "user",
        "positive": 3,
        "negative": 1,
        "revision": 4,
        "session_type": "user",
        "last_at": 1_795_255_100_000,
    },
    "parents": [{"memory_id": "memory:x", "trust": None}],
}


def write(**changed: Any) -> dict[str, Any]:
    """A ProposedMemoryWrite with every field."""
    return {
        "write_id": "w-1",
        "agent_id": "agent-1",
        "session_id": "s-1",
        "content": "The customer prefers e-mail.",
        "source": {"id": "crm", "type": "user", "reliability": 1},
        "traceId": "t-1",
        "request_id": "r-1",
        "content_class": "public_reference",
        "timestamp": "2026-11-20T10:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": "https://crm.example/tickets/7",
        "provenance_hash": HASH,
        "derived_from": ["memory:gate.memory.writes.proposed:3:11"],
        **changed,
    }


def ledger_records(linked: Callable[..., dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One good body per kind of the ledger; `linked` adds what every ledger record has."""
    return {
        "MemoryDecision": _decision(linked),
        "QuarantineEntered": linked(
            "sluice/quarantine_entered/v1", **_HELD, reason="unknown_parent", reviewAfterMs=3_600_000
        ),
        "QuarantineApproved": linked("sluice/quarantine_approved/v1", **_HELD, **_REVIEWED),
        "QuarantineRejected": linked("sluice/quarantine_rejected/v1", **_HELD, **_REVIEWED),
        "QuarantineExpired": linked("sluice/quarantine_expired/v1", **_HELD, input=None, reason="late"),
        "QuarantineEvicted": linked("sluice/quarantine_evicted/v1", **_HELD, reason="full", by="memory:x"),
    }


def other_records() -> dict[str, dict[str, Any]]:
    """One good body per kind that is neither an input nor of the ledger."""
    of_source = {"tenant_id": "tenant-1", "source_id": "crm", "type": "user", "decided_at": MOMENT}
    return {
        "AdmittedMemory": _admit(),
        "SourceFeedback": {
            "schema": "sluice/source_feedback/v1",
            **of_source,
            "verdict": "positive",
            "memory_id": _IDS["memory_id"],
        },
        "DestinationUsed": {
            "schema": "sluice/destination_used/v1",
            "tenant_id": "tenant-1",
            "agent_id": "payer",
            "tool": "transfer",
            "used": {"destination": ["0a" * 16]},
            "action_id": "a-1",
            "used_at": 1,
            "decided_at": MOMENT,
        },
        "UsualDestination": {
            "schema": "sluice/usual_destination/v1",
            "tenant_id": "tenant-1",
            "agent_id": "payer",
            "tool": "transfer",
            "role": "destination",
            "fingerprint": "0a" * 16,
            "first_at": 1,
            "last_at": 2,
            "times": 2,
            "days": 1,
            "revision": 2,
            "decided_at": MOMENT,
        },
        "SourceHistory": {
            "schema": "sluice/source_history/v1",
            **of_source,
            "positive": 3,
            "negative": 1,
            "revision": 5,
        },
    }


def _decision(linked: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return linked(
        "sluice/memory_decision/v1",
        **_IDS,
        traceId=None,
        request_id="r-1",
        action="quarantine",
        shadowAction=None,
        enforcement="enforce",
        reason="unknown_parent",
        trustScore=_TRUST,
        findings=[
            {
                "id": "override.ignore",
                "kind": "instruction_override",
                "weight": "weak",
                "form": "base64",
                "reason": "tells to ignore instructions",
                "source": "OWASP LLM01",
                "framed": True,
                "start": 0,
                "end": 9,
                "field": "source.id",
            }
        ],
        quality_faults=[{"field": "timestamp", "problem": "missing"}],
        similarity={"status": "off"},
        analysis={"status": "off"},
        reviewAfterMs=3_600_000,
        expires_at=MOMENT,
        duplicate_of=None,
        content_digest=HASH,
        content_characters=28,
        policy_bundle_id="default",
        bundle_hash=HASH,
        registry_hashes={"agent/agent-1@1": HASH},
        seen=_SEEN,
        signature=None,
        model_outputs=[],
        rerun_hash=HASH,
    )


def _admit() -> dict[str, Any]:
    sent = write()
    quality = ("content_class", "timestamp", "confidence_score", "provenance_uri", "provenance_hash")
    return {
        "schema": "sluice/admitted_memory/v1",
        **_IDS,
        "how": "approved",
        "approver_id": "p-1",
        "content": sent["content"],
        "content_digest": HASH,
        "source": {"id": "crm", "type": "user"},
        **{name: sent[name] for name in quality},
        "derived_from": sent["derived_from"],
        "trust": 0.65,
        "decided_at": MOMENT,
        "input": {
            "topic": "gate.memory.writes.proposed",
            "partition": 3,
            "offset": 12,
            "timestamp": 1_795_255_200_000,
            "digest": HASH,
        },
    }
