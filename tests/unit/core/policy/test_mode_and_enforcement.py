"""Mode is the caller's, enforcement the operator's; and what nobody registered."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.actions.verdict import find_ruling
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.policy.policy import Policy
from tests.unit.core.scene import LIMITS, Session, bundle, entry, kinds, registry, verdict_of

NEVER = {"id": "never", "type": "invariant", "reason": "not at all", "condition": "false"}
CHECKPOINTS_NOT_RUN = {"integrity": "observed", "back": "observed"}


@pytest.mark.parametrize(
    ("fields", "outcome", "shadow", "autonomy", "counted"),
    [
        ({}, "ALLOW", None, "pass", 1),
        ({"toolName": "erase"}, "ESCALATE", None, "enforced", 0),
        ({"toolName": "erase", "mode": "standard"}, "ESCALATE", None, "observed", 1),
        ({"parameters": {"c": "rm -rf /"}}, "BLOCK", None, "enforced", 0),
        ({"parameters": {"c": "rm -rf /"}, "mode": "standard"}, "BLOCK", None, "observed", 1),
        ({"agent_id": "trial"}, "ALLOW", "ALLOW", "pass", 1),
        ({"agent_id": "trial", "toolName": "erase"}, "ALLOW", "ESCALATE", "observed", 1),
        ({"agent_id": "trial", "parameters": {"c": "rm -rf /"}}, "ALLOW", "BLOCK", "observed", 1),
    ],
)
def test_a_finding_holds_up_only_where_mode_and_enforcement_say_so(
    fields: dict[str, Any], outcome: str, shadow: str | None, autonomy: str, counted: int
) -> None:
    verdict = Session().verdict(**fields)
    front = "observed" if "parameters" in fields else "pass"
    assert (verdict["outcome"], verdict["shadowOutcome"]) == (outcome, shadow)
    assert verdict["checkpoints"] == {"front": front, "autonomy": autonomy, **CHECKPOINTS_NOT_RUN}
    assert verdict["session"]["after"]["aggregateActionCount"] == counted
    assert verdict["rows_reserved"] == counted


def test_one_advisory_names_the_checkpoints_that_did_not_run() -> None:
    (advisory,) = Session().verdict()["advisories"]
    assert all(name in advisory["text"] for name in CHECKPOINTS_NOT_RUN)


def test_an_absent_mode_counts_as_high_stakes_with_an_advisory() -> None:
    verdict = Session().verdict(mode=None)
    assert verdict["mode"] == "high_stakes"
    assert [one["source"] for one in verdict["advisories"]] == ["sluice.mode", "sluice.checkpoints"]


def test_totals_that_the_caller_sends_are_compared_and_never_trusted() -> None:
    session = Session()
    session.propose(rows_affected=7)
    right = session.verdict(action_id="act-2", aggregateRowsAffected=7, aggregateActionCount=1)
    wrong = session.verdict(action_id="act-3", aggregateRowsAffected=0, aggregateActionCount=2)
    assert [one["source"] for one in right["advisories"]] == ["sluice.checkpoints"]
    texts = [one["text"] for one in wrong["advisories"] if one["source"] == "sluice.session"]
    assert texts == ["the caller's aggregateRowsAffected is 0, the session's is 8; the session's counts"]
    assert wrong["session"]["after"] == {"aggregateRowsAffected": 9, "aggregateActionCount": 3}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"agent_id": "nobody"}, "unknown_agent: nobody"),
    ],
)
@pytest.mark.parametrize(("mode", "verdict"), [("high_stakes", "denied"), ("standard", "needs_human")])
def test_what_nobody_registered_is_named(
    fields: dict[str, Any], reason: str, mode: str, verdict: str
) -> None:
    decision = Session().propose(mode=mode, **fields)
    found = verdict_of(decision)
    assert (found["verdict"], found["blockReason"]) == (verdict, reason)
    assert [gate["gate"] for gate in found["gateResults"]] == ["registration"]
    assert kinds(decision) == ["Verdict"]


@pytest.mark.parametrize("named", ["finance.v9", "finance.v0"])
@pytest.mark.parametrize(("mode", "verdict"), [("high_stakes", "denied"), ("standard", "needs_human")])
def test_another_bundle_than_its_own_is_granted_to_no_agent(mode: str, verdict: str, named: str) -> None:
    """Whether anybody knows it or not: a rerun has the judging bundle alone, and gets the same answer."""
    own, other = bundle(), bundle(id="finance.v0")
    policy = Policy({one.id: one for one in (own, other)}, registry(), own.id)
    point = DecisionPoint(policy, list_shipped_stages(), LIMITS, stopwatch=lambda: 0, environment="test")
    found = Session(point).verdict(mode=mode, policy_bundle_id=named)
    assert (found["verdict"], found["blockReason"]) == (verdict, f"bundle_not_granted: {named}")
    assert (found["policy_bundle_id"], found["bundle_hash"]) == (named, own.hash)


@pytest.mark.parametrize("mode", ["high_stakes", "standard"])
def test_an_agent_registered_with_a_bundle_gets_round_it_by_naming_no_other(mode: str) -> None:
    bound = entry("agent", "operator", 2, tenant_id="acme", tier="T3", policy_bundle_id="strict")
    strict, lax = bundle(id="strict", rules=[NEVER]), bundle()
    policy = Policy({one.id: one for one in (strict, lax)}, registry(bound), lax.id)
    point = DecisionPoint(policy, list_shipped_stages(), LIMITS, stopwatch=lambda: 0, environment="test")
    found = Session(point).verdict(mode=mode, policy_bundle_id=lax.id)
    judged = f"bundle_not_granted: {lax.id}" if mode == "high_stakes" else "rule_failed: never: not at all"
    assert (found["verdict"], found["blockReason"]) == ("denied", judged)
    for named in (None, "strict"):
        reason = Session(point).verdict(mode=mode, policy_bundle_id=named)["blockReason"]
        assert reason.startswith("rule_failed: never")


def test_an_unknown_agent_in_standard_mode_is_counted_apart() -> None:
    session = Session()
    verdict = session.verdict(agent_id="nobody", mode="standard", rows_affected=5)
    assert verdict["tenant_id"] is None
    assert verdict["session"]["after"]["aggregateRowsAffected"] == 5
    assert session.rows == 0


def test_an_absent_row_count_takes_the_upper_bound_of_the_action_type() -> None:
    assert Session().verdict(rows_affected=None)["rows_reserved"] == 100


def test_tenants_of_one_session_have_totals_of_their_own() -> None:
    session = Session()
    session.propose(rows_affected=5)
    other = session.verdict(agent_id="other", action_id="act-2", rows_affected=2)
    assert other["session"]["before"] == {"aggregateRowsAffected": 0, "aggregateActionCount": 0}
    assert (other["tenant_id"], session.rows) == ("globex", 5)


def test_registry_entries_that_were_used_are_named_with_their_revision() -> None:
    assert set(Session().verdict(agent_id="trial")["registry_hashes"]) == {
        "agent/trial@1",
        "tool/find@1",
        "org/shadowed@1",
    }


@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_what_a_repeat_makes_stricter_stays_under_the_same_enforcement(mode: str) -> None:
    enforced, shadowed = find_ruling("ALLOW", None, mode), find_ruling("ALLOW", "ALLOW", mode)
    stricter = enforced.stricter("BLOCK", mode)
    assert (stricter.outcome, stricter.shadow, stricter.carried) == ("BLOCK", None, mode == "standard")
    hidden = shadowed.stricter("BLOCK", mode)
    assert (hidden.outcome, hidden.shadow, hidden.carried, hidden.real) == ("ALLOW", "BLOCK", True, "BLOCK")
