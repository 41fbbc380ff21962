"""Gate 4 as a table: every tier of agent and tool, mode, enforcement, registered or not."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import pytest

from sluice.core.actions.authority import TierAuth
from sluice.core.actions.stage import StageResult
from tests.unit.core.scene import Session, bundle, entry, kinds, make_counted, point, verdict_of

TIERS = ("T1", "T2", "T3", "T4")
MODES = ("standard", "high_stakes")
ENFORCEMENTS = ("enforce", "shadow")
PLAIN = bundle(patterns={})
PEOPLE = [
    entry("agent", f"{tenant}-{tier}", tenant_id=tenant, tier=tier)
    for tenant, tier in product(ENFORCEMENTS, TIERS)
]
TOOLS = [make_counted(tier, tier=tier, action_type="OTHER") for tier in TIERS]
ORGS = [entry("org", name, enforcement=name) for name in ENFORCEMENTS]
POINT = point(*PEOPLE, *TOOLS, *ORGS, policy=PLAIN, stages=[TierAuth()])

ABOVE, PERSON, VP = "above_agent_tier", "tier_T3", "tier_T4"
FOUND: dict[str, tuple[str | None, ...]] = {
    #      T1    T2     T3     T4 of the tool
    "T1": (None, ABOVE, ABOVE, ABOVE),
    "T2": (None, None, ABOVE, ABOVE),
    "T3": (None, None, PERSON, ABOVE),
    "T4": (None, None, PERSON, VP),
}
"""By the agent's tier and the tool's: why a person is asked; None: nobody is."""
CELLS = [(agent, tool, FOUND[agent][place]) for agent in TIERS for place, tool in enumerate(TIERS)]


class Answer(NamedTuple):
    """What becomes of a finding: what is published, what is stored beside it, and whether it counts."""

    outcome: str
    shadow: str | None
    opens: bool
    counted: bool


PUBLISHED = {
    ("ALLOW", "high_stakes", "enforce"): Answer("ALLOW", None, opens=False, counted=True),
    ("ALLOW", "standard", "enforce"): Answer("ALLOW", None, opens=False, counted=True),
    ("ALLOW", "high_stakes", "shadow"): Answer("ALLOW", "ALLOW", opens=False, counted=True),
    ("ALLOW", "standard", "shadow"): Answer("ALLOW", "ALLOW", opens=False, counted=True),
    ("ESCALATE", "high_stakes", "enforce"): Answer("ESCALATE", None, opens=True, counted=False),
    ("ESCALATE", "standard", "enforce"): Answer("ESCALATE", None, opens=False, counted=True),
    ("ESCALATE", "high_stakes", "shadow"): Answer("ALLOW", "ESCALATE", opens=False, counted=True),
    ("ESCALATE", "standard", "shadow"): Answer("ALLOW", "ESCALATE", opens=False, counted=True),
    ("BLOCK", "high_stakes", "enforce"): Answer("BLOCK", None, opens=False, counted=False),
    ("BLOCK", "standard", "enforce"): Answer("BLOCK", None, opens=False, counted=True),
    ("BLOCK", "high_stakes", "shadow"): Answer("ALLOW", "BLOCK", opens=False, counted=True),
    ("BLOCK", "standard", "shadow"): Answer("ALLOW", "BLOCK", opens=False, counted=True),
}
"""By what the gates found, the caller's mode and the operator's enforcement."""


def decide(session: Session, **fields: Any) -> tuple[dict[str, Any], Answer]:
    decision = session.propose(**fields)
    verdict = verdict_of(decision)
    opens = kinds(decision) == ["Verdict", "EscalationOpened"]
    assert opens is (verdict["escalationId"] is not None)
    return verdict, Answer(
        verdict["outcome"], verdict["shadowOutcome"], opens, bool(verdict["rows_reserved"])
    )


@pytest.mark.parametrize(("agent", "tool", "reason"), CELLS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
def test_an_agent_of_a_tier_and_a_tool_of_a_tier(
    agent: str, tool: str, reason: str | None, mode: str, enforcement: str
) -> None:
    verdict, answer = decide(Session(POINT), agent_id=f"{enforcement}-{agent}", toolName=tool, mode=mode)
    assert (verdict["blockReason"] or "").partition(":")[0] == (reason or "")
    assert verdict["tier"] == tool
    assert answer == PUBLISHED["ALLOW" if reason is None else "ESCALATE", mode, enforcement]
    assert verdict["obligations"] == (["log"] if reason is None and tool == "T2" else [])
    role = verdict["gateResults"][0]["detail"].get("required_role")
    assert role == (None if reason is None else "vp" if tool == "T4" else "approver")


@pytest.mark.parametrize(
    ("mode", "enforcement", "found"),
    [
        ("high_stakes", "enforce", "BLOCK"),
        ("standard", "enforce", "ESCALATE"),
        ("high_stakes", "shadow", "BLOCK"),
        ("standard", "shadow", "ESCALATE"),
    ],
)
@pytest.mark.parametrize("agent", TIERS)
def test_a_tool_that_nobody_registered(agent: str, mode: str, enforcement: str, found: str) -> None:
    verdict, answer = decide(Session(POINT), agent_id=f"{enforcement}-{agent}", toolName="new", mode=mode)
    assert verdict["blockReason"] == "unregistered_tool: new"
    assert answer == PUBLISHED[found, mode, enforcement]


@pytest.mark.parametrize(("mode", "found"), [("high_stakes", "BLOCK"), ("standard", "ESCALATE")])
@pytest.mark.parametrize("tool", [*TIERS, "new"])
def test_an_agent_that_nobody_registered(mode: str, found: str, tool: str) -> None:
    verdict, answer = decide(Session(POINT), agent_id="nobody", toolName=tool, mode=mode)
    assert verdict["blockReason"] == "unknown_agent: nobody"
    assert answer == PUBLISHED[found, mode, "enforce"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", [*TIERS, "new"])
def test_an_earlier_escalation_asks_whom_the_tier_asks_for(mode: str, tool: str) -> None:
    session = Session(point(*PEOPLE, *TOOLS, *ORGS, policy=PLAIN, stages=[Doubt(), TierAuth()]))
    verdict, answer = decide(session, agent_id="enforce-T4", toolName=tool, mode=mode)
    refused = tool == "new" and mode == "high_stakes"
    assert verdict["blockReason"] == ("unregistered_tool: new" if refused else "doubt")
    assert answer == PUBLISHED["BLOCK" if refused else "ESCALATE", mode, "enforce"]
    assert verdict["obligations"] == []
    role = verdict["gateResults"][-1]["detail"].get("required_role")
    assert role == (None if refused else "vp" if tool == "T4" else "approver")


@pytest.mark.parametrize(
    ("agent", "tool", "mode", "reasons"),
    [
        ("operator", "T4", "high_stakes", ["doubt", "above_agent_tier", "tier_T4"]),
        ("operator", "T3", "high_stakes", ["doubt", "tier_T3"]),
        ("operator", "T1", "high_stakes", ["doubt"]),
        ("reader", "T3", "high_stakes", ["doubt", "tool_not_granted", "above_agent_tier", "tier_T3"]),
        ("reader", "T1", "high_stakes", ["doubt", "tool_not_granted"]),
        ("operator", "new", "standard", ["doubt", "unregistered_tool", "tier_T3"]),
    ],
)
def test_the_person_who_is_asked_sees_every_reason(
    agent: str, tool: str, mode: str, reasons: list[str]
) -> None:
    session = Session(point(*TOOLS, policy=PLAIN, stages=[Doubt(), TierAuth()]))
    detail = session.verdict(agent_id=agent, toolName=tool, mode=mode)["gateResults"][-1]["detail"]
    assert [reason.partition(":")[0] for reason in detail["reasons"]] == reasons


class Doubt:
    """A gate that always asks for a person."""

    name = "doubt"

    def evaluate(self, context: object) -> StageResult:
        del context
        return StageResult("escalate", "doubt")


BY_TYPE = {
    #                 reversible, irreversible, not told
    "PAYMENT": ("T3", "T4", "T4"),
    "CODE_EXECUTION": ("T2", "T3", "T3"),
    "FILE_DELETE": ("T2", "T3", "T3"),
    "DATABASE_WRITE": ("T2", "T3", "T3"),
    "DELEGATION": ("T2", "T3", "T3"),
    "MESSAGE": ("T2", "T2", "T2"),
    "FILE_WRITE": ("T2", "T3", "T2"),
    "DATABASE_READ": ("T1", "T1", "T1"),
    "FILE_READ": ("T1", "T1", "T1"),
    "API_CALL": ("T1", "T3", "T2"),
    "OTHER": ("T2", "T3", "T3"),
}
"""The shipped bundle's tiers for tools without one."""


def test_the_table_of_types_is_whole() -> None:
    assert set(BY_TYPE) == set(PLAIN.action_types)


@pytest.mark.parametrize("action_type", BY_TYPE)
@pytest.mark.parametrize(("place", "reversible"), [(0, True), (1, False), (2, None)])
def test_a_tool_without_a_tier_takes_the_bundles_for_its_type(
    action_type: str, place: int, reversible: bool | None
) -> None:
    tool = entry("tool", "it", action_type=action_type, reversible=reversible)
    session = Session(point(*PEOPLE, tool, policy=PLAIN, stages=[TierAuth()]))
    verdict = session.verdict(agent_id="enforce-T4", toolName="it")
    tier = BY_TYPE[action_type][place]
    assert verdict["tier"] == tier
    assert verdict["outcome"] == ("ALLOW" if tier < "T3" else "ESCALATE")
