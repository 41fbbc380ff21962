"""Delegation: find what is wrong with one link of a chain of delegations.

Seed 001, Gate 2B: the delegate must be in the orchestrator's whitelist and the orchestrator in the delegate's
list of callers; product.md adds that a child's authority must be its parent's or narrower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.registry.registry import Registry
    from app.core.registry.registry_entries import Agent


def link_violations(registry: Registry, parent_id: str, child_id: str) -> list[str]:
    """The reasons why the first agent may not delegate to the second, each "code: text"; empty if it may."""
    if parent_id == child_id:
        return [f"self_delegation: {parent_id}"]
    parent, child = registry.agents.get(parent_id), registry.agents.get(child_id)
    if parent is None or child is None:
        return [f"unknown_agent: {name}" for name in (parent_id, child_id) if name not in registry.agents]
    if parent.tenant != child.tenant:
        return [f"other_tenant: {parent.id} and {child.id} are of different tenants"]
    return _list_violations(parent, child) + _authority_violations(parent, child)


def _list_violations(parent: Agent, child: Agent) -> list[str]:
    found = []
    if child.id not in parent.delegates_to:
        found.append(f"not_in_delegates_to: {parent.id} may not delegate to {child.id}")
    if parent.id not in child.callers:
        found.append(f"not_in_callers: {child.id} may not be called by {parent.id}")
    return found


def _authority_violations(parent: Agent, child: Agent) -> list[str]:
    found = []
    if child.tier > parent.tier:
        found.append(f"wider_tier: {child.id} has {child.tier}, {parent.id} has {parent.tier}")
    wider = _wider_tool(parent, child)
    if wider is not None:
        found.append(f"wider_tools: {child.id} may use {wider}, {parent.id} may not")
    return found


def _wider_tool(parent: Agent, child: Agent) -> str | None:
    """The first tool by name that only the child may use; a null list grants every registered tool."""
    if parent.tools is None:
        return None
    if child.tools is None:
        return "every registered tool"
    return min(child.tools - parent.tools, default=None)
