"""One complete snapshot of the policy in force; every decision is made under one snapshot.

What registry and bundle say about an agent's use of a tool, without the session, is its `Standing`. The
registry takes precedence over the bundle. The caller's claims only make the result stricter: they are judged
in addition to the known facts, and the stricter tier, risk, reversibility and rows count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sluice.core.quality_bundle.severity import TIERS
from sluice.core.registry.registry_entries import NO_ORG, UNREGISTERED, hashes_of
from sluice.core.state.session import who

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Agent, Org, Tool
    from sluice.core.state.session import Who
    from sluice_topics.records.retrievals import AutonomyTier


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

    def principal(self, agent_id: str) -> Principal:
        """The agent of this name, with its tenant and the bundles that judge it."""
        agent = self.registry.agents.get(agent_id)
        tenant = UNREGISTERED if agent is None else agent.tenant
        org = self.registry.orgs.get(tenant, NO_ORG)
        asked_for = (agent and agent.policy_bundle_id) or self.default_bundle
        bundle = self.bundles.get(asked_for, self.default)
        return Principal(agent_id, agent, tenant, org, asked_for, bundle, *self.quality_for(org))

    def quality_for(self, org: Org) -> tuple[str, QualityBundle | None]:
        """The id of the quality bundle that judges a tenant's items (its own, else the default), and the
        bundle. None if it is not in force: no other bundle replaces it."""
        asked_for = org.quality_bundle_id or self.default_quality
        return asked_for, self.quality.get(asked_for)

    def freezes_of(self, principal: Principal, session_id: str) -> tuple[Freeze, ...]:
        """The freezes in force on an agent, its tenant or a session."""
        return self.registry.freezes_of(principal.tenant, principal.agent_id, session_id)

    @property
    def default(self) -> Bundle:
        """The default bundle itself."""
        return self.bundles[self.default_bundle]


REMEMBERED = 8192
"""How many standings are kept; the number is bounded because tool names come from outside."""


_DOUBT = {True: 0, None: 1, False: 2}
"""The order from reversible to irreversible."""


@dataclass(frozen=True, slots=True)
class Standing:
    """`bundle_asked_for`: the id that the action names, else the agent's registered one, else the default;
    `granted`: the principal's bundle is that one; `accepted`: it is also in force, and the agent known.
    `action_type` is the registered type, else the classified one; `types` are this and the claimed one.
    `reversible` None is unknown; it, `tier`, `risk` (per mille) and `rows_upper_bound` are the strictest of
    known and claimed values; `reversibilities` are both values, and `tightened` says that a claim made it
    stricter. `entries` maps "kind/id@revision" to the hash of each entry used."""

    principal: Principal
    bundle_asked_for: str
    granted: bool
    accepted: bool
    tool: Tool | None
    action_type: str
    types: tuple[str, ...]
    reversible: bool | None
    tier: str
    risk: int
    reversibilities: tuple[bool | None, ...]
    rows_upper_bound: int
    tightened: bool
    entries: dict[str, str]


class Standings(Protocol):
    """The joint result of policy and caller, by agent, tool and the caller's claims."""

    def __call__(
        self,
        agent_id: str,
        tool_name: str,
        claimed_type: str | None,
        claimed: bool | None,
        bundle_id: str | None,
    ) -> Standing:
        """The standing of an agent with a tool under a bundle; None for a claim that the caller does not
        make."""


def standings(policy: Policy) -> Standings:
    """Of one policy. Pure, so it may remember."""
    registry = policy.registry

    @lru_cache(maxsize=REMEMBERED)
    def standing(
        agent_id: str, tool_name: str, claimed_type: str | None, claimed: bool | None, bundle_id: str | None
    ) -> Standing:
        principal, tool = policy.principal(agent_id), registry.tools.get(tool_name)
        bundle, own = principal.bundle, principal.bundle_asked_for
        granted = bundle_id in (None, own)
        action_type = (tool and tool.action_type) or bundle.classified(tool_name)
        readings = _readings(bundle, tool, action_type, claimed_type, claimed)
        types = tuple(dict.fromkeys(name for name, _ in readings))
        policies = [bundle.action_types[name] for name in types]
        undone = [reversible for _, reversible in readings]
        return Standing(
            principal,
            bundle_id or own,
            granted,
            granted and principal.agent is not None and (bundle_id or own) == bundle.id,
            tool,
            action_type,
            types,
            max(undone, key=_DOUBT.__getitem__),
            _tier(bundle, tool, readings),
            max(one.risk for one in policies),
            tuple(dict.fromkeys(undone)),
            max(one.rows_upper_bound for one in policies),
            len(readings) > 1,
            hashes_of(principal.agent, tool, principal.org),
        )

    return standing


def rows_counted(tool: Tool | None, claimed: int | None, upper_bound: int) -> int:
    """The rows of an action: at least the bound of its type, unless the tool's entry trusts the estimate."""
    if claimed is not None and tool is not None and tool.trusts_row_claims:
        return claimed
    return max(upper_bound, claimed or 0)


def _readings(
    bundle: Bundle, tool: Tool | None, known_type: str, claimed_type: str | None, claimed: bool | None
) -> list[tuple[str, bool | None]]:
    """The readings of the action as type and reversibility: first as known, then as the caller claims. A
    claim that the action can be undone does not count."""
    found: dict[tuple[str, bool | None], None] = {}
    for name in (known_type, claimed_type or known_type):
        registered = None if tool is None else tool.reversible
        found[(name, bundle.action_types[name].reversible if registered is None else registered)] = None
        if claimed is False:
            found[(name, False)] = None
    return list(found)


def _tier(bundle: Bundle, tool: Tool | None, readings: list[tuple[str, bool | None]]) -> str:
    if tool is not None and tool.tier is not None:
        return tool.tier
    return max(bundle.action_types[name].tier.of(reversible) for name, reversible in readings)


@dataclass(frozen=True, slots=True)
class PointParts:
    """One snapshot of policy and registry, the bounds, and the stopwatch (ns).

    `standing`: what bundle and registry say about an agent's use of a tool. `stages`: by a bundle's hash its
    StageOrder (sluice/core/actions/stage.py).
    """

    policy: Policy
    limits: SessionLimits
    stopwatch: Callable[[], int]
    environment: str
    standing: Standings
    stages: Mapping[str, Any]
