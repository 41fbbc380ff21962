"""One complete snapshot of the policy in force; every decision is made under one snapshot.

What follows from it for an action, before its session is read, is a plan (sluice/core/actions/plan.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.quality_bundle.severity import TIERS
from sluice.core.registry.registry_entries import NO_ORG, UNREGISTERED
from sluice.core.state.session import who

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Agent, Org
    from sluice.core.state.session import Who
    from sluice_topics.records import ProposedAction, ProposedMemoryWrite, ProposedRetrieval
    from sluice_topics.records.retrievals import AutonomyTier
    from sluice_topics.sealing import PersonalField


DEFAULT_QUALITY = "sluice.quality"
"""The id of the quality bundle that ships."""


class Principal(NamedTuple):
    """The agent that the input names, and what registry and policy say about it.

    `agent` is None if it is not registered; then `tenant` is the account that all such agents share, and
    `org` has no settings. `bundle` is the agent's registered bundle, else the default one;
    `bundle_asked_for` is the id of the registered bundle, even if it is not in force. `quality` is the
    tenant's quality bundle, None if that bundle is not in force.
    """

    agent_id: str
    agent: Agent | None
    tenant: str
    org: Org
    bundle_asked_for: str
    bundle: Bundle
    quality_asked_for: str
    quality: QualityBundle | None

    @property
    def tenant_id(self) -> str | None:
        """The tenant as records name it: None for an agent that is not registered."""
        return None if self.agent is None else self.tenant

    @property
    def owner(self) -> Who:
        """The owner of the room that its inputs use in a session."""
        return who(self.tenant, self.agent_id)

    @property
    def is_shadowed(self) -> bool:
        """Whether its tenant is in shadow mode, in which nothing is blocked."""
        return self.org.enforcement == "shadow"

    def tier(self, claimed: AutonomyTier | None) -> AutonomyTier:
        """The stricter of the registered autonomy tier and the claimed one. Without a registered tier it is
        the strictest of all, so an agent's claim never gives it a less strict tier."""
        registered = None if self.agent is None else self.agent.autonomy_tier
        return max(registered or TIERS[-1], claimed or TIERS[0], key=TIERS.index)


@dataclass(frozen=True, slots=True)
class Policy:
    """A snapshot. `bundles`: the newest revision by id. `default_bundle`: the id of the bundle for agents
    that name none and are registered with none; it must be among `bundles`.

    `quality` and `default_quality`: the same for quality bundles, but the default one may be missing; then
    retrievals are denied."""

    bundles: Mapping[str, Bundle]
    registry: Registry
    default_bundle: str
    quality: Mapping[str, QualityBundle] = field(default_factory=dict)
    default_quality: str = DEFAULT_QUALITY

    def find_principal(self, agent_id: str) -> Principal:
        """The agent of this name, with its tenant and the bundles that judge it."""
        agent = self.registry.agents.get(agent_id)
        tenant = UNREGISTERED if agent is None else agent.tenant
        org = self.registry.orgs.get(tenant, NO_ORG)
        asked_for = (agent and agent.policy_bundle_id) or self.default_bundle
        bundle = self.bundles.get(asked_for, self.default)
        return Principal(agent_id, agent, tenant, org, asked_for, bundle, *self.find_quality(org))

    def find_tenant(self, agent_id: str) -> str:
        """The tenant of the agent of this name."""
        agent = self.registry.agents.get(agent_id)
        return UNREGISTERED if agent is None else agent.tenant

    def list_personal(self, agent_id: str, named: str | None) -> tuple[PersonalField, ...]:
        """What is personal in an agent's inputs: as its bundle marks it, and the one that the input names."""
        own, other = self.find_principal(agent_id).bundle, self.bundles.get(named or "")
        return own.personal if other is None else tuple(dict.fromkeys((*own.personal, *other.personal)))

    @property
    def marks_personal(self) -> bool:
        """Whether a bundle marks anything as personal."""
        return any(bundle.personal for bundle in self.bundles.values())

    def find_quality(self, org: Org) -> tuple[str, QualityBundle | None]:
        """The id of the quality bundle that judges a tenant's items (its own, else the default), and the
        bundle. None if it is not in force: no other bundle replaces it."""
        asked_for = org.quality_bundle_id or self.default_quality
        return asked_for, self.quality.get(asked_for)

    def find_freezes(self, principal: Principal, session_id: str) -> tuple[Freeze, ...]:
        """The freezes in force on an agent, its tenant or a session."""
        return self.registry.find_freezes(principal.tenant, principal.agent_id, session_id)

    @property
    def default(self) -> Bundle:
        """The default bundle itself."""
        return self.bundles[self.default_bundle]


@dataclass(frozen=True, slots=True)
class PointParts:
    """One snapshot of policy and registry, the bounds, and the stopwatch (ns).

    `plan`: what is settled of an action before its session is read (sluice/core/actions/plan.py);
    `plan_write`: of a memory write (sluice/core/memory/plan.py); `plan_retrieval`: of a retrieval
    (sluice/core/retrieval/plan.py). `demands_sealed`: what a bundle marks as personal is refused where it
    comes plain, and what comes sealed elsewhere. `pauses`: an evaluation of a kind that goes by stages
    pauses, because others go along. `values_key`: the master key of values' fingerprints
    (sluice_topics/values.py); None: the installation has none.
    """

    policy: Policy
    limits: SessionLimits
    stopwatch: Callable[[], int]
    environment: str
    plan: Callable[[ProposedAction], Any]
    plan_write: Callable[[ProposedMemoryWrite], Any]
    plan_retrieval: Callable[[ProposedRetrieval], Any]
    pauses: bool = False
    values_key: bytes | None = field(default=None, repr=False)
    demands_sealed: bool = False
