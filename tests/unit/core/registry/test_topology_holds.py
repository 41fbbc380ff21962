"""Gate 2B over teams of any shape: what a chain that passes can never be, and what a claim can never buy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.actions.team import BOUND, delegate, topology_gate
from tests.unit.core.scene import Session, entry

NAMES = ("a", "b", "c", "d", "e")
TOOLS = ("delegate", "find", "change", "pay")
ORDERLY: dict[str, dict[str, Any]] = {
    name: {
        "tenant_id": "acme",
        "tier": tier,
        "tools": tools,
        "delegates_to": list(NAMES),
        "callers": list(NAMES),
    }
    for name, tier, tools in zip(
        NAMES,
        ("T4", "T3", "T3", "T2", "T1"),
        (None, ["delegate", "find", "change"], ["delegate", "find"], ["delegate"], []),
        strict=True,
    )
}
"""Any of them may hand work to those after it, and to none before it."""
ANY = st.lists(st.sampled_from(NAMES), unique=True)
SPECS = st.fixed_dictionaries(
    {
        "tenant_id": st.sampled_from(["acme", "acme", "globex"]),
        "tier": st.sampled_from(["T1", "T2", "T3", "T4"]),
        "tools": st.none() | st.lists(st.sampled_from(TOOLS), unique=True),
        "delegates_to": ANY,
        "callers": ANY,
    }
)
TEAMS = st.dictionaries(st.sampled_from(NAMES), SPECS, max_size=2).map(lambda odd: ORDERLY | odd)
WALKS = st.lists(st.sampled_from(NAMES), min_size=2, max_size=7)
IDS = st.sampled_from([*NAMES, "stranger"])
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "rootAgentId": IDS,
        "parentAgentId": IDS,
        "chainDepth": st.sampled_from([0, 1, 2, 3, 10**20]),
    },
)
AT_ROOT = {"chainDepth": 0}
STRICTNESS = {"pass": 0, "escalate": 1, "block": 2}
Team = dict[str, dict[str, Any]]


def session_of(team: Team) -> Session:
    return delegate(*(entry("agent", name, **spec) for name, spec in team.items()))


def find_result(session: Session, parent: str, child: str | None, told: dict[str, Any] | None = None) -> str:
    """What Gate 2B itself found."""
    session.offset += 1
    verdict = session.verdict(
        action_id=f"act-{session.offset}",
        agent_id=parent,
        toolName="delegate",
        delegate_to=child,
        governanceContext=told,
        mode="standard",
    )
    gate = topology_gate(verdict)
    if gate["passed"]:
        return "pass"
    return "block" if gate["detail"]["violations"] else "escalate"


def authority(spec: dict[str, Any]) -> tuple[str, frozenset[str]]:
    """A tier, and every tool that the agent may use; a null list may use one more than any list."""
    return spec["tier"], frozenset([*TOOLS, "any other"] if spec["tools"] is None else spec["tools"])


@given(TEAMS, WALKS | WALKS.map(sorted) | st.just(list(NAMES)))
def test_no_chain_that_passes_widens_leaves_the_tenant_or_runs_too_long(team: Team, walk: list[str]) -> None:
    session, chain = session_of(team), [walk[0]]
    for child in walk[1:]:
        told: dict[str, Any] = {"rootAgentId": chain[0], "chainDepth": len(chain) - 1}
        if len(chain) > 1:
            told["parentAgentId"] = chain[-2]
        if find_result(session, chain[-1], child, told) == "pass":
            chain.append(child)
    authorities = [authority(team[name]) for name in chain]
    for parent, child_ in pairwise(authorities):
        assert child_[0] <= parent[0]
        assert child_[1] <= parent[1]
    assert len({team[name]["tenant_id"] for name in chain}) == 1
    assert len(chain) - 1 <= BOUND
    assert chain[0] not in chain[1:]


@given(TEAMS, st.permutations(NAMES))
def test_both_lists_are_needed(team: Team, order: list[str]) -> None:
    parent, child = order[:2]
    wide = {"tenant_id": "acme", "tier": "T4", "tools": None, "delegates_to": list(NAMES)}
    narrow = {"tenant_id": "acme", "callers": list(NAMES)}
    team |= {parent: team[parent] | wide, child: team[child] | narrow}
    assert find_result(session_of(team), parent, child, AT_ROOT) == "pass"
    for name, field, other in ((parent, "delegates_to", child), (child, "callers", parent)):
        shorter = [one for one in NAMES if one != other]
        changed = team | {name: team[name] | {field: shorter}}
        assert find_result(session_of(changed), parent, child, AT_ROOT) == "block"


@given(TEAMS, st.sampled_from(NAMES), IDS | st.none(), CLAIMS)
def test_no_claim_about_the_chain_buys_more_than_being_its_root(
    team: Team, parent: str, child: str | None, told: dict[str, Any]
) -> None:
    session = session_of(team)
    plain, claimed = find_result(session, parent, child, AT_ROOT), find_result(session, parent, child, told)
    assert STRICTNESS[claimed] >= STRICTNESS[plain]


@given(TEAMS, st.sampled_from(NAMES), st.sampled_from(NAMES), CLAIMS)
def test_a_deeper_claim_never_passes_where_a_shallower_does_not(
    team: Team, parent: str, child: str, told: dict[str, Any]
) -> None:
    session = session_of(team)
    results = [
        STRICTNESS[find_result(session, parent, child, told | {"chainDepth": depth})] for depth in range(5)
    ]
    assert results == sorted(results)
    assert results[BOUND] == STRICTNESS["block"]


@given(TEAMS, st.sampled_from(NAMES), CLAIMS)
def test_a_delegation_to_nobody_in_particular_never_passes(
    team: Team, parent: str, told: dict[str, Any]
) -> None:
    assert find_result(session_of(team), parent, None, told) != "pass"
