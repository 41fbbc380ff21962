"""Gate 4, "tier_auth": whether this agent may do an action of this tier, and who else must agree.

Seed 001, Gate 4: T1 passes, T2 passes with the obligation to log, T3 waits for a person, T4 for a VP. It is
also where an escalation of an earlier gate ends up, and where an unregistered tool is decided.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from app.core.actions.stage import Detail, Gate, StageResult
from topics.records.base import Tier  # noqa: TC001 - pydantic reads the annotations

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext

OBLIGATIONS: dict[str, tuple[str, ...]] = {"T1": (), "T2": ("log",), "T3": (), "T4": ()}
_WAITS = {"T3": "tier_T3: needs a person's approval", "T4": "tier_T4: needs a VP's approval"}


class TierAuthDetail(Detail):
    """The action's tier and its agent's; where a person is asked, who may agree and to what."""

    tier: Tier
    agent_tier: Annotated[Tier | None, Field(title="the agent's tier")]
    required_role: Annotated[str | None, Field(title="may be approved by")] = None
    reasons: Annotated[list[str] | None, Field(title="reason")] = None


class TierAuth(Gate):
    """Passes, escalates, or blocks an unregistered tool in high_stakes mode."""

    name = "tier_auth"
    detail = TierAuthDetail
    judges_content = False

    def evaluate(self, context: ActionContext) -> StageResult:
        """A tool outside the agent's list is above its authority like a tier above its own: it escalates,
        because a person may grant once what the registry does not grant for good. The detail's `reasons` are
        all that the person agrees to, the earlier gate's before this one's own."""
        reasons = _own_reasons(context)
        if context.escalated is not None:
            reasons.insert(0, context.escalated)
        agent_tier = None if context.agent is None else context.agent.tier
        if not reasons:
            return _passed(context.tier, agent_tier)
        detail = {"tier": context.tier, "agent_tier": agent_tier}
        if context.tool is None and context.mode == "high_stakes":
            return StageResult("block", _unregistered(context), detail)
        asked = {**detail, "required_role": required_role(context.tier), "reasons": reasons}
        return StageResult("escalate", reasons[0], asked)


@cache
def _passed(tier: str, agent_tier: str | None) -> StageResult:
    detail = {"tier": tier, "agent_tier": agent_tier}
    return StageResult("pass", None, detail, obligations=OBLIGATIONS[tier])


def required_role(tier: str) -> Literal["approver", "vp"]:
    """Who may approve an action of this tier."""
    return "vp" if tier == "T4" else "approver"


def _own_reasons(context: ActionContext) -> list[str]:
    agent, tool, tier = context.agent, context.tool, context.tier
    found = [] if tool is not None else [_unregistered(context)]
    if agent is not None and agent.tools is not None and tool is not None and tool.id not in agent.tools:
        found.append(f"tool_not_granted: {tool.id}")
    if agent is not None and tier > agent.tier:
        found.append(f"above_agent_tier: {tier} above {agent.tier}")
    if tier in _WAITS:
        found.append(_WAITS[tier])
    return found


def _unregistered(context: ActionContext) -> str:
    return f"unregistered_tool: {context.action.tool_name}"
