"""What registry and bundle say of an agent's use of a tool, before the session is looked at.

The registry's word goes before the caller's, the caller's before the bundle's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from app.core.registry_entries import NO_ORG, hashes_of
from app.core.session import UNREGISTERED

if TYPE_CHECKING:
    from app.core.bundles import Bundle
    from app.core.policy import Policy
    from app.core.registry_entries import Agent, Org, Tool

REMEMBERED = 8192
"""How many are kept: a bound, since tool names come from outside."""


@dataclass(frozen=True, slots=True)
class Standing:
    """`bundle_asked_for`: the id that the action names, else its agent's registered one, else the default;
    `bundle` is that one, or the default where nobody knows it; `granted` whether it is the agent's own.
    `reversible` None is unknown; `entries` is
    "kind/id@revision" to hash of what it rests on."""

    bundle_asked_for: str
    bundle: Bundle
    granted: bool
    agent: Agent | None
    tool: Tool | None
    tenant: str
    org: Org
    action_type: str
    reversible: bool | None
    tier: str
    rows_upper_bound: int
    entries: dict[str, str]


class Standings(Protocol):
    """What policy and caller say together, by agent, tool and the caller's own claims."""

    def __call__(
        self,
        agent_id: str,
        tool_name: str,
        claimed_type: str | None,
        claimed: bool | None,
        bundle_id: str | None,
    ) -> Standing:
        """The standing of an agent with a tool under a bundle; None is for what the caller does not say."""


def standings(policy: Policy) -> Standings:
    """Of one policy. Pure, so it may remember."""
    registry = policy.registry

    @lru_cache(maxsize=REMEMBERED)
    def standing(
        agent_id: str, tool_name: str, claimed_type: str | None, claimed: bool | None, bundle_id: str | None
    ) -> Standing:
        agent, tool = registry.agents.get(agent_id), registry.tools.get(tool_name)
        own, _ = policy.bundle_for(agent)
        asked_for, bundle = policy.bundle_for(agent, bundle_id)
        tenant = UNREGISTERED if agent is None else agent.tenant
        org = registry.orgs.get(tenant, NO_ORG)
        action_type = (tool and tool.action_type) or claimed_type or bundle.classified(tool_name)
        reversible = _reversible(bundle, tool, claimed, action_type)
        return Standing(
            asked_for,
            bundle,
            asked_for == own,
            agent,
            tool,
            tenant,
            org,
            action_type,
            reversible,
            _tier(bundle, tool, action_type, reversible=reversible),
            bundle.action_types[action_type].rows_upper_bound,
            hashes_of(agent, tool, org),
        )

    return standing


def _reversible(bundle: Bundle, tool: Tool | None, claimed: bool | None, action_type: str) -> bool | None:
    if tool is not None and tool.reversible is not None:
        return tool.reversible
    return bundle.action_types[action_type].reversible if claimed is None else claimed


def _tier(bundle: Bundle, tool: Tool | None, action_type: str, *, reversible: bool | None) -> str:
    if tool is not None and tool.tier is not None:
        return tool.tier
    return bundle.action_types[action_type].tier.of(reversible)
