"""The gates that judge who acts and who permits it; the other gates judge what an action does.

"controls": nothing of a frozen tenant, agent or session goes on (product.md, pipeline step 1), and while it
recovers nothing without a person.

Gate 2B, "topology": whether this agent may hand this work to that one (seed 001, Gate 2B). The action's
`governanceContext` tells the chain in which the acting agent itself works: its root, its own parent, and
`chainDepth`, the delegations that led to it (0: it is the root). It is the caller's word: a named parent must
be a link that both lists allow, ancestors that are named count even where `chainDepth` says less, and what it
leaves open escalates.

Gate 4, "tier_auth": whether this agent may do an action of this tier, and who else must agree (seed 001). T1
passes, T2 passes with the obligation to log, T3 waits for a person, T4 for a VP. It is also where an
escalation of an earlier gate ends up, and where an unregistered tool is decided.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from sluice.core.actions.pipeline import INCONCLUSIVE
from sluice.core.actions.stage import PASSED, Detail, Gate, StageResult
from sluice.core.foundation.canonical import wire_int
from sluice.core.foundation.input_record import escalation_id, verdict_id
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundles import BundlePart
from sluice.core.registry.freezes import find_stop
from sluice.core.registry.registry import list_link_violations
from sluice.core.state.escalation import Escalation, parameters_digest
from sluice_topics.records.base import (
    LedgerCount,  # noqa: TC001 - pydantic reads the annotations
    Tier,  # noqa: TC001 - pydantic reads the annotations
)
from sluice_topics.relaxations import StricterWhen

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.core.actions.stage import ActionContext, ActionPlan
    from sluice.core.foundation.input_record import InputRecord
    from sluice_topics.records import ProposedAction


DELEGATION = "DELEGATION"


LONGEST_CHAIN = 64
"""The longest chain that a bundle may allow. Longer chains are not followed."""


class Topology(StrictModel):
    """`max_chain_depth`: delegations that a chain may hold from its root agent on, counting the new one.

    0 forbids delegation altogether.
    """

    max_chain_depth: Annotated[
        int,
        Field(ge=0, le=LONGEST_CHAIN),
        StricterWhen("lower", "a chain may hold {new} delegations, not {old}"),
    ] = 3


class TopologyDetail(Detail):
    """Empty if the action is no delegation. `delegations` counts those from the root on, with this one; null:
    unknown."""

    delegate_to: Annotated[str | None, Field(title="delegated to")] = None
    delegations: LedgerCount | None = None
    max_chain_depth: Annotated[int | None, Field(title="delegations at most")] = None
    violations: Annotated[list[str] | None, Field(title="violation")] = None


class TopologyCheck(Gate):
    """Blocks a delegation that a list, an authority or the chain forbids; escalates one that it cannot
    judge."""

    name = "topology"
    detail = TopologyDetail
    judges_content = False
    part = BundlePart(name, Topology, Topology())

    def evaluate(self, context: ActionContext) -> StageResult:
        """A delegation is an action of type DELEGATION, also if only claimed, or one that names
        `delegate_to`; others pass.

        The first violation is the reason; all are in the detail, beside the number of delegations from the
        root on, this one counted (null: unknown). `entries` are the delegate's and the named parent's.
        """
        action = context.action
        if action.delegate_to is None and DELEGATION not in context.plan.types:
            return PASSED
        policy: Topology = context.plan.bundle.parts[self.name]
        chain, bound = _chain(context), policy.max_chain_depth
        violations = _violations(context, chain, bound)
        detail = {
            "delegate_to": action.delegate_to,
            "delegations": wire_int(chain.least + 1) if chain.is_known else None,
            "max_chain_depth": bound,
            "violations": violations,
        }
        entries = _entries(context)
        if violations:
            return StageResult("block", violations[0], detail, entries=entries)
        if action.delegate_to is None or not chain.is_known:
            missing = "delegate_to" if action.delegate_to is None else "chainDepth"
            reason = f"{INCONCLUSIVE}: {self.name} does not know {missing}"
            return StageResult("escalate", reason, detail, entries=entries)
        return StageResult("pass", None, detail, entries=entries)


class _Chain(NamedTuple):
    """Delegations that led to the acting agent: at least this many, exactly if `is_known`."""

    least: int
    is_known: bool


def _chain(context: ActionContext) -> _Chain:
    """If the action states nothing, an agent that no other may call is a root; any other agent may be at
    any place. The place of an agent that signs follows from its grants
    (sluice/core/actions/delegation.py)."""
    ancestors, governance = _ancestors(context.action), context.action.governance_context
    if context.plan.agent is not None and context.plan.agent.keys is not None:
        depth = 0 if governance is None else len(governance.grants or ())
        return _Chain(depth, is_known=depth > 0 or not context.plan.agent.callers)
    if governance is not None and governance.chain_depth is not None:
        return _Chain(max(governance.chain_depth, len(ancestors)), is_known=True)
    if governance is not None and governance.root_agent_id == context.action.agent_id:
        return _Chain(len(ancestors), is_known=not ancestors)
    may_be_called = context.plan.agent is not None and bool(context.plan.agent.callers)
    return _Chain(len(ancestors), is_known=not ancestors and not may_be_called)


def _ancestors(action: ProposedAction) -> set[str]:
    """The agents other than the acting one that the context names above it."""
    governance = action.governance_context
    named = set() if governance is None else {governance.root_agent_id, governance.parent_agent_id}
    if governance is not None and governance.grants:
        named.update(grant.parent_agent_id for grant in governance.grants)
    return {name for name in named if name not in (None, action.agent_id)}


def _violations(context: ActionContext, chain: _Chain, bound: int) -> list[str]:
    action, registry, problems = context.action, context.plan.registry, []
    governance = action.governance_context
    if action.delegate_to is not None:
        problems += list_link_violations(registry, action.agent_id, action.delegate_to)
    if governance is not None and governance.parent_agent_id is not None:
        problems += list_link_violations(registry, governance.parent_agent_id, action.agent_id)
    if chain.least + 1 > bound:
        problems.append(f"chain_too_deep: {chain.least + 1} delegations, the bundle allows {bound}")
    return problems + _cycles(action, chain)


def _cycles(action: ProposedAction, chain: _Chain) -> list[str]:
    governance, problems = action.governance_context, []
    if action.delegate_to in _ancestors(action):
        problems.append(f"cycle: {action.delegate_to} is above {action.agent_id} already")
    if governance is not None and governance.root_agent_id == action.agent_id and chain.least:
        problems.append(f"cycle: {action.agent_id} is the root of its own chain")
    return problems


def _entries(context: ActionContext) -> dict[str, str]:
    governance = context.action.governance_context
    names = (context.action.delegate_to, None if governance is None else governance.parent_agent_id)
    agents = [context.plan.registry.agents[name] for name in names if name in context.plan.registry.agents]
    return {agent.key: agent.hash for agent in agents}


class FreezeFound(BaseModel):
    """A freeze: its id in the registry, and what it freezes ("all", "tenant", "agent" or "session")."""

    id: str
    subject: str


class ControlsDetail(Detail):
    """Empty if no freeze was found."""

    freezes: list[FreezeFound] | None = None


class Controls(Gate):
    """Blocks when the registry holds an active freeze of everything, or of the action's tenant, agent or
    session; where such freezes only ask, a person must agree, and no standing grant takes the person's place.
    """

    name = "controls"
    detail = ControlsDetail
    judges_content = False
    grants_cover = False
    leaves_denials = True

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where the registry holds no freeze at all."""
        return None if plan.registry.freezes else PASSED

    def evaluate(self, context: ActionContext) -> StageResult:
        """The first freeze that stops is the reason, else the first; all of them are in the detail."""
        if not context.freezes:
            return PASSED
        stop = find_stop(context.freezes)
        return StageResult(
            "escalate" if stop is None else "block",
            (stop or context.freezes[0]).word,
            {"freezes": [{"id": freeze.id, "subject": freeze.subject} for freeze in context.freezes]},
        )


OBLIGATIONS: dict[str, tuple[str, ...]] = {"T1": (), "T2": ("log",), "T3": (), "T4": ()}
_WAITS = {"T3": "tier_T3: needs a person's approval", "T4": "tier_T4: needs a VP's approval"}


class TierAuthDetail(Detail):
    """The tiers of the action and of its agent; if a person must agree, who may agree, and to what."""

    tier: Tier
    agent_tier: Annotated[Tier | None, Field(title="the agent's tier")]
    type_tier: Annotated[Tier | None, Field(title="its type's tier, but it does less")] = None
    required_role: Annotated[str | None, Field(title="may be approved by")] = None
    reasons: Annotated[list[str] | None, Field(title="reason")] = None


class TierAuth(Gate):
    """Escalates an action above its agent's authority; blocks an unregistered tool in high_stakes mode."""

    name = "tier_auth"
    detail = TierAuthDetail
    judges_content = False

    def evaluate(self, context: ActionContext) -> StageResult:
        """A tool outside the agent's list escalates, as a tier above the agent's does: a person may permit
        once what the registry does not permit in general. The detail's `reasons` are all that the person
        agrees to: first the earlier gate's, then this gate's."""
        return self.prepare(context.plan)(context)

    def prepare(self, plan: ActionPlan) -> Callable[[ActionContext], StageResult]:
        """With all but what an earlier gate escalated for."""
        own, agent_tier = _own_reasons(plan), None if plan.agent is None else plan.agent.tier
        passed = None if own else _pass(plan.tier, agent_tier, plan.type_tier)

        def evaluate(context: ActionContext) -> StageResult:
            if passed is not None and context.escalated is None:
                return passed
            reasons = own if context.escalated is None else [context.escalated, *own]
            detail = _describe_tiers(plan.tier, agent_tier, plan.type_tier)
            if plan.tool is None and plan.mode == "high_stakes":
                return StageResult("block", _name_unregistered(plan), detail)
            asked = {**detail, "required_role": find_required_role(plan.tier), "reasons": [*reasons]}
            return StageResult("escalate", reasons[0], asked)

        return evaluate


@cache
def _pass(tier: str, agent_tier: str | None, type_tier: str) -> StageResult:
    detail = _describe_tiers(tier, agent_tier, type_tier)
    return StageResult("pass", None, detail, obligations=OBLIGATIONS[tier])


def _describe_tiers(tier: str, agent_tier: str | None, type_tier: str) -> dict[str, Any]:
    """`type_tier` only where what the call does made the tier lower than its type's."""
    return {"tier": tier, "agent_tier": agent_tier} | ({"type_tier": type_tier} if type_tier else {})


def find_required_role(tier: str) -> Literal["approver", "vp"]:
    """Who may approve an action of this tier."""
    return "vp" if tier == "T4" else "approver"


def make_escalation(input_record: InputRecord, context: ActionContext) -> Escalation:
    """The escalation of an action, bound to the digest of exactly this action.

    The bundle says how long it waits. Actions open one in high_stakes mode under enforcement, because then an
    agent waits (seed 001, Gate 4).
    """
    action, now = context.action, input_record.timestamp_ms
    return Escalation(
        escalation_id(input_record.decision_id),
        verdict_id(input_record.decision_id),
        action.action_id,
        action.agent_id,
        action.session_id,
        context.plan.tenant,
        action.tool_name,
        input_record.digest,
        context.plan.tier,
        find_required_role(context.plan.tier),
        context.plan.bundle.approvals.count_needed(context.plan.tier),
        input_record.topic,
        input_record.partition,
        input_record.offset,
        now,
        now + context.plan.bundle.escalation_ttl_ms,
        route=context.plan.bundle.approvals.find_route(
            context.plan.tier, action.tool_name, context.plan.tenant
        ),
        own_key=context.plan.bundle.approvals.demands_own_key(context.plan.tier),
        parameters=parameters_digest(
            action.parameters if input_record.opened is None else input_record.opened.sealed_parameters
        ),
    )


def _own_reasons(plan: ActionPlan) -> list[str]:
    agent, tool, tier = plan.agent, plan.tool, plan.tier
    problems = [] if tool is not None else [_name_unregistered(plan)]
    if agent is not None and agent.tools is not None and tool is not None and tool.id not in agent.tools:
        problems.append(f"tool_not_granted: {tool.id}")
    if agent is not None and tier > agent.tier:
        problems.append(f"above_agent_tier: {tier} above {agent.tier}")
    if tier in _WAITS:
        problems.append(_WAITS[tier])
    return problems


def _name_unregistered(plan: ActionPlan) -> str:
    return f"unregistered_tool: {plan.tool_name}"
