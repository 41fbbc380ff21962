"""Gate 2B: who may hand work to whom (seed 001, "Topology Check")."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sluice.core.actions.authority import LONGEST_CHAIN, Topology
from tests.unit.core.actions.team import TEAM, bound_chains, delegate, delegation, team, topology_gate
from tests.unit.core.scene import kinds, verdict_of


def find_result(changes: dict[str, Any] | None = None, **fields: Any) -> tuple[str, str | None]:
    verdict = delegate(*team(changes)).verdict(**delegation(**fields))
    return verdict["outcome"], verdict["blockReason"]


def make_below(
    agent: str, parent: str | None = None, root: str | None = None, depth: int | None = None
) -> Any:
    """The fields of an action by an agent that stands somewhere in a chain."""
    told = {"parentAgentId": parent, "rootAgentId": root, "chainDepth": depth}
    return {
        "agent_id": agent,
        "governanceContext": {key: value for key, value in told.items() if value is not None},
    }


def test_a_delegation_that_both_lists_allow_passes() -> None:
    verdict = delegate().verdict(**delegation())
    assert verdict["outcome"] == "ALLOW"
    assert topology_gate(verdict)["detail"] == {
        "delegate_to": "helper",
        "delegations": 1,
        "max_chain_depth": 3,
        "violations": [],
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lead": {"delegates_to": []}}, "not_in_delegates_to: lead may not delegate to helper"),
        ({"helper": {"callers": []}}, "not_in_callers: helper may not be called by lead"),
        ({"helper": {"tier": "T4"}}, "wider_tier: helper has T4, lead has T3"),
        ({"helper": {"tools": ["find", "pay"]}}, "wider_tools: helper may use pay, lead may not"),
        ({"helper": {"tools": None}}, "wider_tools: helper may use every registered tool, lead may not"),
        ({"helper": {"tenant_id": "globex"}}, "other_tenant: lead and helper are of different tenants"),
    ],
)
def test_a_violation_blocks_with_its_reason(changes: dict[str, Any], reason: str) -> None:
    assert find_result(changes) == ("BLOCK", reason)


@pytest.mark.parametrize(
    "changes",
    [
        {"helper": {"tier": "T3"}},
        {"helper": {"tools": TEAM["lead"]["tools"]}},
        {"helper": {"tools": []}},
        {"lead": {"tools": None}},
        {"lead": {"tools": None}, "helper": {"tools": None}},
    ],
)
def test_authority_as_wide_as_the_parents_or_narrower_passes(changes: dict[str, Any]) -> None:
    assert find_result(changes) == ("ALLOW", None)


def test_a_delegate_that_nobody_registered_blocks() -> None:
    assert find_result(delegate_to="stranger") == ("BLOCK", "unknown_agent: stranger")


def test_an_agent_hands_nothing_to_itself_even_if_its_lists_say_so() -> None:
    changes = {"lead": {"delegates_to": ["lead"], "callers": ["lead"]}}
    assert find_result(changes, delegate_to="lead") == ("BLOCK", "self_delegation: lead")


def test_every_violation_is_in_the_detail() -> None:
    changes: dict[str, Any] = {
        "lead": {"delegates_to": []},
        "helper": {"callers": [], "tier": "T4", "tools": None},
    }
    verdict = delegate(*team(changes)).verdict(**delegation(**make_below("lead", depth=3)))
    codes = [text.split(":")[0] for text in topology_gate(verdict)["detail"]["violations"]]
    assert codes == ["not_in_delegates_to", "not_in_callers", "wider_tier", "wider_tools", "chain_too_deep"]


def test_a_blocked_delegation_ends_the_pipeline() -> None:
    decision = delegate(*team({"helper": {"callers": []}})).propose(**delegation())
    assert [gate["gate"] for gate in verdict_of(decision)["gateResults"]] == ["topology"]
    assert kinds(decision) == ["Verdict"]


@pytest.mark.parametrize(("depth", "bound", "outcome"), [(2, 2, "BLOCK"), (1, 2, "ALLOW"), (0, 2, "ALLOW")])
def test_the_bound_counts_the_new_delegation(depth: int, bound: int, outcome: str) -> None:
    session = delegate(policy=bound_chains(bound))
    verdict = session.verdict(**delegation(**make_below("lead", depth=depth)))
    assert verdict["outcome"] == outcome
    assert topology_gate(verdict)["detail"]["delegations"] == depth + 1


def test_a_bound_of_zero_forbids_delegation() -> None:
    verdict = delegate(policy=bound_chains(0)).verdict(**delegation())
    assert verdict["blockReason"] == "chain_too_deep: 1 delegations, the bundle allows 0"


def test_a_depth_beyond_any_float_is_too_deep_and_recorded() -> None:
    verdict = delegate().verdict(**delegation(**make_below("lead", depth=10**30)))
    assert verdict["outcome"] == "BLOCK"
    assert topology_gate(verdict)["detail"]["delegations"] == str(10**30 + 1)


def test_named_ancestors_count_where_the_depth_says_less() -> None:
    claim = make_below("helper", parent="lead", root="chief", depth=0)
    verdict = delegate(policy=bound_chains(2)).verdict(**delegation(**claim, delegate_to="junior"))
    assert verdict["blockReason"] == "chain_too_deep: 3 delegations, the bundle allows 2"


def test_the_next_link_of_a_chain_passes_with_its_context() -> None:
    claim = make_below("helper", parent="lead", root="lead", depth=1)
    verdict = delegate().verdict(**delegation(**claim, delegate_to="junior"))
    assert (verdict["outcome"], topology_gate(verdict)["detail"]["delegations"]) == ("ALLOW", 2)


@pytest.mark.parametrize(
    ("claim", "delegate", "reason"),
    [
        (make_below("helper", "lead", "lead", 1), "lead", "cycle: lead is above helper already"),
        (make_below("helper", "junior", "lead", 2), "lead", "cycle: lead is above helper already"),
        (make_below("lead", "helper", "lead", 2), "junior", "cycle: lead is the root of its own chain"),
        (make_below("lead", root="lead", depth=1), "helper", "cycle: lead is the root of its own chain"),
    ],
)
def test_a_cycle_that_the_context_tells_blocks(claim: dict[str, Any], delegate: str, reason: str) -> None:
    everyone = list(TEAM)
    open_to_all = {
        name: {"tier": "T1", "tools": ["find", "delegate"], "delegates_to": everyone, "callers": everyone}
        for name in everyone
    }
    assert find_result(open_to_all, **claim, delegate_to=delegate) == ("BLOCK", reason)


@pytest.mark.parametrize(
    ("claim", "delegations"),
    [
        (make_below("helper", "lead", "lead", 1), 2),
        (make_below("helper", "lead", "lead"), None),
        (make_below("helper", "lead", "helper"), None),
        (make_below("helper", root="helper"), 1),
        ({"agent_id": "helper"}, None),
    ],
)
def test_the_length_of_a_chain_that_nobody_told_is_recorded_as_unknown(
    claim: dict[str, Any], delegations: int | None
) -> None:
    verdict = delegate().verdict(**delegation(**claim, delegate_to="junior"))
    assert topology_gate(verdict)["detail"]["delegations"] == delegations


@pytest.mark.parametrize(
    ("parent", "reason"),
    [
        ("stranger", "unknown_agent: stranger"),
        ("other", "other_tenant: other and helper are of different tenants"),
        ("operator", "not_in_delegates_to: operator may not delegate to helper"),
        ("helper", "self_delegation: helper"),
    ],
)
def test_a_parent_that_could_not_have_delegated_blocks(parent: str, reason: str) -> None:
    assert find_result(**make_below("helper", parent, "lead", 1), delegate_to="junior") == ("BLOCK", reason)


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"delegate_to": None}, "delegate_to"),
        ({"agent_id": "helper", "delegate_to": "junior"}, "chainDepth"),
        ({**make_below("helper", parent="lead"), "delegate_to": "junior"}, "chainDepth"),
        (make_below("lead", root="operator"), "chainDepth"),
    ],
)
def test_what_nobody_told_is_inconclusive_and_escalates(fields: dict[str, Any], missing: str) -> None:
    assert find_result(**fields) == ("ESCALATE", f"inconclusive: topology does not know {missing}")


def test_a_violation_goes_before_what_is_unknown() -> None:
    outcome = find_result({"junior": {"callers": []}}, agent_id="helper", delegate_to="junior")
    assert outcome == ("BLOCK", "not_in_callers: junior may not be called by helper")


@pytest.mark.parametrize("claim", [make_below("helper", depth=0), make_below("helper", root="helper")])
def test_an_agent_that_may_be_called_can_say_that_it_is_the_root(claim: dict[str, Any]) -> None:
    assert find_result(**claim, delegate_to="junior") == ("ALLOW", None)


@pytest.mark.parametrize(
    ("fields", "judged"),
    [
        ({"toolName": "note", "delegate_to": "stranger"}, True),
        ({"toolName": "delegate", "delegate_to": "stranger"}, True),
        ({"toolName": "note", "delegate_to": None}, False),
    ],
)
def test_whatever_names_a_delegate_is_a_delegation(fields: dict[str, Any], judged: bool) -> None:
    granted = {"lead": {"tools": None}}
    verdict = delegate(*team(granted)).verdict(**delegation(**fields))
    assert (verdict["outcome"] == "BLOCK") is judged
    assert ("violations" in topology_gate(verdict)["detail"]) is judged


def test_a_context_without_a_delegation_is_not_judged() -> None:
    claim = make_below("helper", "stranger", "stranger", 99)
    assert find_result(**claim, toolName="find", delegate_to=None) == ("ALLOW", None)


def test_the_entries_of_all_agents_of_the_link_are_recorded() -> None:
    claim = make_below("helper", "lead", "lead", 1)
    verdict = delegate().verdict(**delegation(**claim, delegate_to="junior"))
    agents = {key for key in verdict["registry_hashes"] if key.startswith("agent/")}
    assert agents == {"agent/lead@1", "agent/helper@1", "agent/junior@1"}


def test_another_revision_of_the_delegate_gives_another_rerun_hash() -> None:
    plain, changed = team(), team()
    changed[1] = {**changed[1], "revision": 2}
    hashes = {delegate(*entries).verdict(**delegation())["rerun_hash"] for entries in (plain, changed)}
    assert len(hashes) == 2


@pytest.mark.parametrize("depth", [-1, LONGEST_CHAIN + 1, True, 1.0, "3"])
def test_a_bound_out_of_range_or_of_another_type_is_refused(depth: Any) -> None:
    with pytest.raises(ValidationError):
        Topology(max_chain_depth=depth)
