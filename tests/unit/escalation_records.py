"""Good records of escalated actions and standing grants, to vary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HASH = "sha256:" + "0a" * 32
MOMENT = "2026-11-21T10:00:00.000Z"
DELEGATE = {
    "id": "gateway-people",
    "channel": "browser",
    "key_id": "0a" * 32,
    "entry": "delegate/gateway-people@1",
    "entry_hash": HASH,
}
"""Who signed for an approver."""
_ESCALATION = {
    "escalation_id": "e-1",
    "verdict_id": "v-1",
    "action_id": "a-1",
    "agent_id": "agent-1",
    "session_id": "s-1",
    "tenant_id": "tenant-1",
    "action_digest": HASH,
    "expires_at": MOMENT,
}


def ledger_records(linked: Callable[..., dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One good body per kind; `linked` gives the chain's fields."""
    looked_up: dict[str, Any] = {
        "path": "$.iban",
        "role": "destination",
        "kind": "iban",
        "origin": "untrusted_read",
    }
    looked_up |= {"source": "invoice.pdf", "seen_before_ms": 3000, "used_by": None}
    opened = {
        "reason": "tier",
        "tier": "T4",
        "required_role": "vp",
        "quorum": 2,
        "opened_at": MOMENT,
        "parameters_digest": HASH,
        "own_key": False,
        "values": [looked_up],
    }
    with_own_key = {
        "approver_id": "p-1",
        "approver_entry": "approver/p-1@1",
        "approver_hash": HASH,
        "justification": "checked",
    }
    answered = {**with_own_key, "delegate": DELEGATE}
    resolved = {
        **answered,
        "decision": "approve",
        "outcome": "ALLOW",
        "blockReason": None,
        "resolved_verdict_id": "resolved:gate.reviews:3:1",
        "known_until": MOMENT,
        "resolved_at": MOMENT,
    }
    counted = {**answered, "approval_id": "approval:gate.reviews:3:1", "approvals": 1, "quorum": 2}
    counted |= {"dropped": ["p-2"], "dropped_because": "not_entitled", "own_key": True}
    of_action = {"approved_parameters": HASH, "tier": "T4", "required_role": "vp"}
    expired = {"reason": "nobody decided in time", "approvals": 0, "expired_at": MOMENT}
    turn = {"group": "leads", "remind_at": MOMENT, "next_group": "board", "next_at": MOMENT}
    reminded = {"reminder_id": "reminder:a:3:1:1", "group": "finance", "approvals": 0, "due_at": MOMENT}
    rerouted = {"reroute_id": "reroute:a:3:1:2", "from_group": "finance", "approvals": 1, "due_at": MOMENT}
    grant = {
        "grant_id": "grant:gate.reviews:3:1",
        "agent_id": "agent-1",
        "session_id": "s-1",
        "tenant_id": "tenant-1",
        "tool": "deploy",
        "grant_digest": HASH,
    }
    given = {"escalation_id": "e-1", "when": None, "uses": 2, "until": MOMENT, **with_own_key}
    used = {"use_id": "use:a:3:1", "verdict_id": "v-2", "action_id": "a-2", "uses_left": 1}
    return {
        "GrantGiven": linked("sluice/grant_given/v1", **grant, **given),
        "GrantUsed": linked("sluice/grant_used/v1", **grant, **used),
        "GrantRevoked": linked("sluice/grant_revoked/v1", **grant, **answered, uses_left=1),
        "EscalationOpened": linked("sluice/escalation_opened/v1", **_ESCALATION, **opened, **turn),
        "EscalationReminded": linked("sluice/escalation_reminded/v1", **_ESCALATION, **reminded),
        "EscalationRerouted": linked("sluice/escalation_rerouted/v1", **_ESCALATION, **rerouted, **turn),
        "ApprovalCounted": linked("sluice/approval_counted/v1", **_ESCALATION, **counted, **of_action),
        "EscalationResolved": linked("sluice/escalation_resolved/v1", **_ESCALATION, **resolved),
        "EscalationExpired": linked("sluice/escalation_expired/v1", **_ESCALATION, **expired),
    }


def other_records() -> dict[str, dict[str, Any]]:
    """A good body of the record that is not of the ledger."""
    return {
        "NotifiedSubject": {
            "schema": "sluice/notified_subject/v1",
            "subject_id": "e-1",
            "told": {"subject_id": "e-1", "status": "waiting"},
            "offset": 17,
            "messages": [{"channel": "C1", "ts": "1700000000.000100"}],
        }
    }
