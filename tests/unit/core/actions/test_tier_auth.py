"""Gate 4: tiers, obligations, escalations, and unregistered tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.scene import START, Session, entry, kinds, only, point, verdict_of


@pytest.mark.parametrize(
    ("agent", "tool", "outcome", "reason", "obligations"),
    [
        ("operator", "find", "ALLOW", None, []),
        ("operator", "change", "ALLOW", None, ["log"]),
        ("operator", "erase", "ESCALATE", "tier_T3: needs a person's approval", []),
        ("chief", "pay", "ESCALATE", "tier_T4: needs a VP's approval", []),
        ("operator", "pay", "ESCALATE", "above_agent_tier: T4 above T3", []),
        ("reader", "change", "ESCALATE", "tool_not_granted: change", []),
        ("reader", "find", "ALLOW", None, []),
    ],
)
def test_the_tier_decides(
    agent: str, tool: str, outcome: str, reason: str | None, obligations: list[str]
) -> None:
    verdict = Session().verdict(agent_id=agent, toolName=tool)
    assert (verdict["outcome"], verdict["blockReason"]) == (outcome, reason)
    assert verdict["obligations"] == obligations


@pytest.mark.parametrize(("tool", "role"), [("erase", "approver"), ("pay", "vp")])
def test_an_escalation_is_opened_for_the_right_role_and_exactly_this_action(tool: str, role: str) -> None:
    session = Session()
    decision = session.propose(agent_id="chief", toolName=tool)
    opened = only(decision, "EscalationOpened")
    verdict = verdict_of(decision)
    assert kinds(decision) == ["Verdict", "EscalationOpened"]
    assert opened["required_role"] == role
    assert opened["escalation_id"] == verdict["escalationId"] == "escalation:gate.actions.proposed:3:1"
    assert opened["action_digest"] == verdict["input"]["digest"]
    assert (opened["opened_at"], opened["expires_at"]) == (
        "2025-11-21T13:00:00.000Z",
        "2025-11-21T14:00:00.000Z",
    )
    assert session.now == START


@pytest.mark.parametrize("fields", [{"mode": "standard"}, {"agent_id": "trial"}])
def test_no_escalation_opens_where_nobody_waits(fields: dict[str, Any]) -> None:
    decision = Session().propose(toolName="erase", **fields)
    assert kinds(decision) == ["Verdict"]
    assert verdict_of(decision)["escalationId"] is None


@pytest.mark.parametrize(("mode", "verdict"), [("high_stakes", "denied"), ("standard", "needs_human")])
def test_an_unregistered_tool_is_named(mode: str, verdict: str) -> None:
    decision = Session().propose(toolName="teleport", mode=mode)
    found = verdict_of(decision)
    assert (found["verdict"], found["blockReason"]) == (verdict, "unregistered_tool: teleport")
    assert kinds(decision) == ["Verdict"]


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"action_type": "DATABASE_READ", "reversible": True}, "T1"),
        ({"action_type": "DATABASE_WRITE", "reversible": True}, "T2"),
        ({"action_type": "DATABASE_WRITE", "reversible": False}, "T3"),
        ({"action_type": "OTHER"}, "T3"),
    ],
)
def test_a_tool_without_a_tier_gets_the_bundles_by_type_and_reversibility(
    fields: dict[str, Any], tier: str
) -> None:
    assert Session(point(entry("tool", "it", **fields))).verdict(toolName="it")["tier"] == tier


@pytest.mark.parametrize(
    ("name", "tier"), [("DeleteUserRows", "T3"), ("list_files", "T1"), ("makePayment", "T4"), ("xyz", "T3")]
)
def test_without_a_declared_type_the_tools_name_tells_it(name: str, tier: str) -> None:
    assert Session(point(entry("tool", name))).verdict(toolName=name)["tier"] == tier


def test_the_registry_goes_before_the_caller() -> None:
    verdict = Session().verdict(toolName="erase", action_type="DATABASE_READ", reversible=True)
    assert verdict["tier"] == "T3"
