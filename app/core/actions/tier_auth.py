"""Gate 4, "tier_auth": whether this agent may do an action of this tier, and who else must agree.

Seed 001, Gate 4: T1 passes, T2 passes with the obligation to log, T3 waits for a person, T4 for a VP. It is
also where an escalation of an earlier gate ends up, and where an unregistered tool is decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from app.core.actions.stage import StageResult

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext

OBLIGATIONS: dict[str, tuple[str, ...]] = {"T1": (), "T2": ("log",), "T3": (), "T4": ()}
_WAITS = {"T3": "tier_T3: needs a person's approval", "T4": "tier_T4: needs a VP's approval"}


class TierAuth:
    """Passes, escalates, or blocks an unregistered tool in high_stakes mode."""

    name = "tier_auth"

    def evaluate(self, context: ActionContext) -> StageResult:
        """A tool outside the agent's list is above its authority like a tier above its own: it escalates,
        because a person may grant once what the registry does not grant for good."""
        detail = {"tier": context.tier, "agent_tier": None if context.agent is None else context.agent.tier}
        if context.tool is None and context.mode == "high_stakes":
            return StageResult("block", _unregistered(context), detail)
        reason = context.escalated or _own_reason(context)
        if reason is None:
            return StageResult("pass", None, detail, obligations=OBLIGATIONS[context.tier])
        return StageResult("escalate", reason, {**detail, "required_role": required_role(context.tier)})


def required_role(tier: str) -> Literal["approver", "vp"]:
    """Who may approve an action of this tier."""
    return "vp" if tier == "T4" else "approver"


def _own_reason(context: ActionContext) -> str | None:
    if context.tool is None:
        return _unregistered(context)
    agent = context.agent
    if agent is not None and agent.tools is not None and context.tool.id not in agent.tools:
        return f"tool_not_granted: {context.tool.id}"
    if agent is not None and context.tier > agent.tier:
        return f"above_agent_tier: {context.tier} above {agent.tier}"
    return _WAITS.get(context.tier)


def _unregistered(context: ActionContext) -> str:
    return f"unregistered_tool: {context.action.tool_name}"
