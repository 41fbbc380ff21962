"""The registry: all known agents, tools, tenants and other entries, loaded together, each with its hash.

File: {"entries": [{"kind", "id", "revision", "spec"}]}. For one kind and id the highest revision counts; of a
fact all revisions count, each for its time. A repeated revision is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.registry.freezes import ALL
from sluice.core.registry.quality_entries import find_bad
from sluice_topics.audience import UNNAMED, Audience

if TYPE_CHECKING:
    from collections.abc import Collection

    from sluice.core.registry.agent_grants import AgentGrant
    from sluice.core.registry.agent_keys import Delegate
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.erasures import Erasure
    from sluice.core.registry.facts import Fact
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.limits import Limit
    from sluice.core.registry.mandates import Issuer, MandateRevocation, RegisteredTask
    from sluice.core.registry.model_proofs import ModelProof
    from sluice.core.registry.quality_entries import Known, KnownBad, Provenance, QualityOverrideEntry
    from sluice.core.registry.registry_entries import (
        Agent,
        EnforcementPoint,
        Org,
        Source,
        Tool,
    )


MOST_PEERS = 64


class Registry:
    """All entries in force, by kind and id; a source by its tenant and its own id, overrides by tenant and
    item, grants by tenant, agent and tool, limits by tenant, erasures by the tenant and each key's id.

    Recorded provenance is kept by tenant and the URI's normal form, known bad entries by tenant, subject and
    value. Of several entries with the same name the first by its key counts, in whatever order they came.
    `audience`: the installation for which what its keys sign must have been signed.
    """

    def __init__(self, audience: Audience = UNNAMED) -> None:
        self.audience = audience
        self.agents: dict[str, Agent] = {}
        self.agents_by_role: dict[tuple[str, str], list[str]] = {}
        self.tools: dict[str, Tool] = {}
        self.orgs: dict[str, Org] = {}
        self.enforcement_points: dict[str, EnforcementPoint] = {}
        self.delegates: dict[str, Delegate] = {}
        self.freezes: dict[tuple[str, str], list[Freeze]] = {}
        self.facts: dict[str, list[Fact]] = {}
        self.sources: dict[tuple[str, str], Source] = {}
        self.provenance: dict[tuple[str, str], Provenance] = {}
        self.known_bad: Known = {}
        self.overrides: dict[tuple[str, str], list[QualityOverrideEntry]] = {}
        self.agent_grants: dict[tuple[str, str, str], list[AgentGrant]] = {}
        self.model_proofs: dict[str, ModelProof] = {}
        self.approvers: dict[str, Approver] = {}
        self.issuers: dict[str, Issuer] = {}
        self.tasks: dict[str, RegisteredTask] = {}
        self.mandate_revocations: dict[str, MandateRevocation] = {}
        self.limits: dict[str, list[Limit]] = {}
        self.erasures: dict[tuple[str, str], Erasure] = {}
        self._agent_keys: frozenset[str] | None = None

    def find_freezes(self, tenant: str, agent_id: str, session_id: str) -> tuple[Freeze, ...]:
        """The active freezes of everything, tenant, agent and session, in this order; those of one subject by
        their keys."""
        if not self.freezes:
            return ()
        subjects = ((ALL, ALL), ("tenant", tenant), ("agent", agent_id), ("session", session_id))
        freezes = (freeze for subject in subjects for freeze in self.freezes.get(subject, ()))
        return tuple(freeze for freeze in freezes if freeze.tenant in (None, tenant))

    def find_known_bad(
        self, tenant: str, item_id: str | None, provenance_uri: Any, body_digest: str | None
    ) -> tuple[KnownBad, ...]:
        """The active entry that decides on an item, at most one: of the entries of its tenant and of all
        tenants on its id, its content, its source or a place above that source, the first by its key."""
        if not self.known_bad:
            return ()
        return find_bad(self.known_bad, tenant, item_id, provenance_uri, body_digest)

    def find_peers(self, agent: Agent) -> tuple[str, ...]:
        """The other agents of its tenant that have one of its roles, by their ids, at most MOST_PEERS."""
        named = {
            agent_id for role in agent.roles for agent_id in self.agents_by_role.get((agent.tenant, role), ())
        }
        return tuple(sorted(named - {agent.id})[:MOST_PEERS])

    def find_limits(self, agent: Agent, tool: str, types: Collection[str]) -> tuple[Limit, ...]:
        """The limits that may be about actions of an agent with a tool, which may be of these types; by their
        keys."""
        return tuple(
            limit for limit in self.limits.get(agent.tenant, ()) if limit.is_about(agent, tool, types)
        )

    def find_signing_agent(self, name: str) -> Agent | None:
        """The agent of this name, if its inputs need a signature."""
        agent = self.agents.get(name)
        return None if agent is None or agent.keys is None else agent

    def is_agent_key(self, key_id: str) -> bool:
        """Whether some agent's inputs may be signed with this key, by the agent or by a delegate for it. Ask
        it of a whole registry: the keys are gathered once."""
        if self._agent_keys is None:
            of_agents = (agent.keys or () for agent in self.agents.values())
            of_delegates = (delegate.keys for delegate in self.delegates.values() if delegate.agents)
            self._agent_keys = frozenset(key.id for keys in (*of_agents, *of_delegates) for key in keys)
        return key_id in self._agent_keys

    def find_delegates(self, tenant: str) -> tuple[Delegate, ...]:
        """The delegates that may sign for the agents of a tenant."""
        return tuple(
            delegate for delegate in self.delegates.values() if delegate.agents and tenant in delegate.tenants
        )

    def find_reporter_tenant(self, reporter: str) -> str | None:
        """The tenant of an enforcement point or agent; None for an id that is neither."""
        point = self.enforcement_points.get(reporter) or self.agents.get(reporter)
        return None if point is None else point.tenant


def list_link_violations(registry: Registry, parent_id: str, child_id: str) -> list[str]:
    """The reasons why the first agent may not delegate to the second, each "code: text"; empty if it may."""
    if parent_id == child_id:
        return [f"self_delegation: {parent_id}"]
    parent, child = registry.agents.get(parent_id), registry.agents.get(child_id)
    if parent is None or child is None:
        return [f"unknown_agent: {name}" for name in (parent_id, child_id) if name not in registry.agents]
    if parent.tenant != child.tenant:
        return [f"other_tenant: {parent.id} and {child.id} are of different tenants"]
    return _check_lists(parent, child) + _check_authority(parent, child)


def _check_lists(parent: Agent, child: Agent) -> list[str]:
    objections = []
    if child.id not in parent.delegates_to:
        objections.append(f"not_in_delegates_to: {parent.id} may not delegate to {child.id}")
    if parent.id not in child.callers:
        objections.append(f"not_in_callers: {child.id} may not be called by {parent.id}")
    return objections


def _check_authority(parent: Agent, child: Agent) -> list[str]:
    objections = []
    if child.tier > parent.tier:
        objections.append(f"wider_tier: {child.id} has {child.tier}, {parent.id} has {parent.tier}")
    wider = _find_wider_tool(parent, child)
    if wider is not None:
        objections.append(f"wider_tools: {child.id} may use {wider}, {parent.id} may not")
    return objections


def _find_wider_tool(parent: Agent, child: Agent) -> str | None:
    """The first tool by name that only the child may use; a null list grants every registered tool."""
    if parent.tools is None:
        return None
    if child.tools is None:
        return "every registered tool"
    return min(child.tools - parent.tools, default=None)
