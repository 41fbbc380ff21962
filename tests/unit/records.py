"""Good records to vary: one input of each kind, and one ledger record of each kind by wire names."""

from __future__ import annotations

import json
from typing import Any

from tests.unit import escalation_records, memory_records, retrieval_records

HASH = "sha256:" + "0a" * 32
MOMENT = "2026-11-21T10:00:00.000Z"


def action(**changed: Any) -> dict[str, Any]:
    """A ProposedAction with every field."""
    return {
        "action_id": "a-1",
        "agent_id": "agent-1",
        "session_id": "s-1",
        "toolName": "sql.query",
        "parameters": {"statement": "SELECT 1", "args": [1, 2.5, None, {"deep": [True]}]},
        "traceId": "t-1",
        "request_id": "r-1",
        "policy_bundle_id": "finance.recon.v0",
        "mode": "high_stakes",
        "deadline_ms": 500,
        "tool_description": "runs a query",
        "action_type": "DATABASE_READ",
        "reversible": True,
        "rows_affected": 3,
        "reasoning": "the user asked",
        "delegate_to": "agent-2",
        "mandate_digest": HASH,
        "acknowledged_flags": ["stale"],
        "governanceContext": {
            "rootAgentId": "agent-0",
            "originalIntentHash": "h",
            "chainDepth": 1,
            "parentAgentId": "agent-0",
            "parentTraceId": "t-0",
            "grants": [
                {
                    "parent_agent_id": "agent-0",
                    "agent_id": "agent-1",
                    "session_id": "s",
                    "max_depth": 0,
                    "tools": ["db.write"],
                    "until": "2026-11-21T11:00:00.000Z",
                    "key_id": "0a" * 32,
                    "signature": "AA==",
                }
            ],
        },
        "aggregateRowsAffected": 10,
        "aggregateActionCount": 2,
        **changed,
    }


def value(document: Any) -> bytes:
    """The document as a message's value."""
    return json.dumps(document).encode()


def _link(schema: str, **fields: Any) -> dict[str, Any]:
    return {
        "schema": schema,
        "partition": 3,
        "decider_version": "0.1.0+0123456789abcdef",
        "sequence": 1,
        "prev_hash": "GENESIS",
        "event_hash": HASH,
        "decided_at": MOMENT,
        "input": {
            "topic": "gate.actions.proposed",
            "partition": 3,
            "offset": 12,
            "timestamp": 1_795_255_200_000,
            "digest": HASH,
        },
        **fields,
    }


def _mandate() -> dict[str, Any]:
    return {
        "digest": HASH,
        "task": "Pay the invoice",
        "task_hash": HASH,
        "until_ms": 1,
        "scopes": [
            {
                "digest": HASH,
                "agent_id": "agent-1",
                "issuer_id": "console",
                "key_id": "0a" * 32,
                "tools": [{"tool": "pay", "condition": "action.rows < 2", "count": 1}],
                "destinations": [],
                "values": None,
                "until_ms": None,
            }
        ],
        "entries": {"issuer/console@1": HASH},
        "void": None,
        "used_by_others": None,
    }


def _verdict() -> dict[str, Any]:
    totals = {"aggregateRowsAffected": 1, "aggregateActionCount": 1}
    return _link(
        "sluice/verdict/v1",
        verdict_id="gate.actions.proposed:3:12",
        action_id="a-1",
        agent_id="agent-1",
        session_id="s-1",
        tenant_id="tenant-1",
        traceId=None,
        request_id="r-1",
        verdict="denied",
        outcome="BLOCK",
        shadowOutcome=None,
        mode="high_stakes",
        enforcement="enforce",
        waited_ms=None,
        signature=None,
        tier=None,
        blockReason="forbidden_target",
        escalationId=None,
        duplicate_of=None,
        gateResults=_gates(),
        rule_results=[{"rule": "r", "passed": False}],
        evidence_refs=["e"],
        rerun_hash=HASH,
        policy_bundle_id="default@1",
        bundle_hash=HASH,
        registry_hashes={"agent/agent-1@1": HASH},
        checkpoints={
            "front": "observed",
            "autonomy": "enforced",
            "integrity": "observed",
            "back": "observed",
        },
        advisories=[{"source": "gate", "text": "mode was absent", "severity": "warn", "id": "1"}],
        obligations=["log"],
        stages=["controls", "fast_reject"],
        session={
            "before": totals,
            "after": totals | {"aggregateRowsAffected": str(2**60)},
            "known": {"digest": HASH, "offset": 3, "mark": "ALLOW/BLOCK"},
            "room": True,
            "flags": {"acknowledged": ["i-1:stale"], "outstanding": ["i-2:low_confidence"]},
            "disputed": "a-0",
            "remembered": {"sequence": {"firsts": {"r": [[1, "a-1", True]]}, "denials": [1]}},
            "read": {"external": {"times": 2, "last_at": 1, "last": "i-3"}},
            "mandate": _mandate(),
            "mandates": None,
            "limits": None,
            "values": {
                "complete": False,
                "untainted": True,
                "values": {
                    "$.to": {"trusted": False, "source": "contacts", "at_ms": 1, "written": True},
                },
                "uses": {
                    "$.to": {
                        "agent": "a",
                        "role": "destination",
                        "fingerprint": "0a" * 16,
                        "times": 2,
                        "days": 1,
                        "last_ms": 1,
                        "revision": 2,
                        "answered_ms": 1,
                        "until_ms": 2,
                    }
                },
            },
        },
        rows_reserved=str(2**53),
        model_outputs=[],
        grant={
            "grant_id": "grant:gate.reviews:3:1",
            "when": "true",
            "uses_left": 1,
            "until": MOMENT,
            "approver_id": "p-1",
            "entry": "approver/p-1@1",
            "entry_hash": HASH,
            "grant_digest": HASH,
        },
    )


def _gates() -> list[dict[str, Any]]:
    return [
        {"gate": "controls", "passed": True, "failureReason": None, "durationMs": 0.02, "detail": {}},
        {
            "gate": "fast_reject",
            "passed": False,
            "failureReason": "forbidden_target",
            "durationMs": 1,
            "detail": {"target": "prod"},
        },
    ]


def ledger_records() -> dict[str, dict[str, Any]]:
    """One good body per kind."""
    return {
        "Verdict": _verdict(),
        "ResolvedVerdict": _resolve_verdict(),
        **escalation_records.ledger_records(_link),
        **_session_events(),
        "PolicyInForce": _policy_in_force(),
        "OutcomeAlarm": _outcome_alarm(),
        "DeadLetter": _dead_letter(),
        **memory_records.ledger_records(_link),
        **retrieval_records.ledger_records(_link),
    }


def _resolve_verdict() -> dict[str, Any]:
    vote = {
        "approver_id": "p-1",
        "entry": "approver/p-1@1",
        "entry_hash": HASH,
        "review": "gate.reviews:3:1",
        "delegate": escalation_records.DELEGATE,
    }
    seen = {
        "tool": "deploy",
        "tier": "T4",
        "required_role": "vp",
        "quorum": 1,
        "opened_at": MOMENT,
        "expires_at": MOMENT,
        "votes": [],
        "counted": False,
        "route": {"groups": ["finance", "leads"], "remind_after_ms": None, "next_after_ms": 60000},
        "own_key": False,
        "parameters_digest": HASH,
        "votes_for": HASH,
        "claimed": 3,
    }
    return {
        **_verdict(),
        "schema": "sluice/resolved_verdict/v1",
        "verdict_id": "resolved:gate.reviews:3:1",
        "resolves": "v-1",
        "action": _link("")["input"],
        "escalation": seen,
        "approvals": [vote],
        "narrowed": HASH,
    }


def _session_events() -> dict[str, dict[str, Any]]:
    return {
        "SessionFolded": _link(
            "sluice/session_folded/v1",
            input=None,
            session_id="s-1",
            tenants={"tenant-1": {"aggregateRowsAffected": 0, "aggregateActionCount": 4}},
            opened_at=MOMENT,
            last_at=MOMENT,
            reason="idle",
        ),
        "ReservationSettled": _link(
            "sluice/reservation_settled/v1",
            outcome_id="gate.outcomes:3:1",
            action_id="a-1",
            session_id="s-1",
            tenant_id="tenant-1",
            reserved=10,
            actual=str(2**70),
            aggregateRowsAffected=str(2**70),
            counted=str(2**70),
            lowered=False,
            signed=True,
            disputed=False,
            early=False,
            reported_by="ep-1",
        ),
        "MandateRecorded": _link(
            "sluice/mandate_recorded/v1",
            mandate_event_id="mandate:gate.mandates:3:2",
            mandate_id="m-1",
            session_id="s-1",
            agent_id="agent-1",
            tenant_id="tenant-1",
            mandate=_mandate(),
            registry_hashes={"issuer/console@1": HASH},
        ),
        "InputRefused": _link(
            "sluice/input_refused/v1",
            refusal_id="gate.outcomes:3:2",
            topic="gate.outcomes",
            session_id="s-1",
            subject="a-9",
            reason="unknown_action",
            message="no such action",
        ),
    }


def _policy_in_force() -> dict[str, Any]:
    nothing = {"total": 0, "named": []}
    return _link(
        "sluice/policy_in_force/v1",
        input=None,
        policy_event_id="policy:3:0123456789abcdef:1763719200000",
        trigger="change",
        digest=HASH,
        previous=HASH,
        entries=9,
        kinds={"bundle": 1, "tool": 8},
        added=nothing,
        replaced={"total": 1, "named": [{"entry": "tool/wipe", "before": 1, "now": 2}]},
        lowered=nothing,
        gone=nothing,
        accepted=[],
    )


def _outcome_alarm() -> dict[str, Any]:
    return _link(
        "sluice/outcome_alarm/v1",
        alarm_id="alarm:outcome_disputed:outcome:gate.outcomes:3:1",
        kind="outcome_disputed",
        severity="critical",
        recipient="operator",
        subject="a-1",
        message="more than it may count",
        session_id="s-1",
        tenant_id="tenant-1",
        claimed=str(10**30),
        counted=100,
        reported_by="a-2",
        raised_at="2026-11-21T10:00:00.000Z",
    )


def _dead_letter() -> dict[str, Any]:
    return _link(
        "sluice/dead_letter/v1",
        dead_letter_id="gate.actions.proposed:3:4",
        topic="gate.actions.proposed",
        code="not_json",
        path="$.a",
        message="Expecting value",
        key=None,
        ids={"action_id": "a-1"},
        value_base64="e30=",
        value_size=2,
        truncated=False,
    )
