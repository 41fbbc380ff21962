"""A team of agents that hand work on: lead, helper and junior, each narrower than the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.actions.authority import TierAuth, TopologyCheck
from tests.unit.core.scene import Session, bundle, entry, point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.core.policy.bundles import Bundle

BOUND = 3
TEAM: dict[str, dict[str, Any]] = {
    "lead": {"tier": "T3", "tools": ["find", "change", "delegate"], "delegates_to": ["helper"]},
    "helper": {"tier": "T2", "tools": ["find", "delegate"], "delegates_to": ["junior"], "callers": ["lead"]},
    "junior": {"tier": "T1", "tools": ["find"], "callers": ["helper"]},
}
DELEGATE = entry("tool", "delegate", tier="T1", action_type="DELEGATION", reversible=True)
NOTE = entry("tool", "note", tier="T1", action_type="MESSAGE", reversible=True)


def bound_chains(max_chain_depth: int) -> Bundle:
    """The shipped bundle without its patterns, with this bound on chains."""
    return bundle(patterns={}, topology={"max_chain_depth": max_chain_depth})


THREE_DEEP = bound_chains(BOUND)


def team(changes: Mapping[str, Mapping[str, Any]] | None = None) -> list[dict[str, Any]]:
    """The entries of the team, some fields of some agents changed or agents added."""
    changed = changes or {}
    names: Iterable[str] = {**TEAM, **changed}
    return [
        entry("agent", name, **{"tenant_id": "acme", **TEAM.get(name, {}), **changed.get(name, {})})
        for name in names
    ]


def delegate(*entries: dict[str, Any], policy: Bundle = THREE_DEEP) -> Session:
    """A session of these agents in front of Gate 2B and Gate 4."""
    stages = (TopologyCheck(), TierAuth())
    return Session(point(*(entries or team()), DELEGATE, NOTE, policy=policy, stages=stages))


def delegation(**fields: Any) -> dict[str, Any]:
    """The lead hands work to the helper; some fields changed."""
    base = {"agent_id": "lead", "toolName": "delegate", "delegate_to": "helper"}
    return {**base, **fields}


def topology_gate(verdict: dict[str, Any]) -> dict[str, Any]:
    """What Gate 2B found."""
    (found,) = [one for one in verdict["gateResults"] if one["gate"] == "topology"]
    result: dict[str, Any] = found
    return result
