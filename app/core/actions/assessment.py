"""What an action is, before any gate judges it: who acts, on which tool, of which type, tier and size.

The registry's word goes before the caller's, the caller's before the bundle's default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.stage import ActionContext
from app.core.registry_entries import NO_ORG
from app.core.session import UNREGISTERED

if TYPE_CHECKING:
    from app.core.bundles import Bundle
    from app.core.draft import SessionDraft
    from app.core.point import PointParts
    from app.core.registry_entries import Entry, Tool
    from topics.records import ProposedAction


def assess(parts: PointParts, action: ProposedAction, draft: SessionDraft) -> ActionContext:
    """The context of an action on the session's values so far."""
    registry, bundle = parts.registry, parts.bundle
    agent = registry.agents.get(action.agent_id)
    tool = registry.tools.get(action.tool_name)
    tenant = UNREGISTERED if agent is None else agent.tenant
    action_type = _action_type(bundle, tool, action)
    reversible = _reversible(bundle, tool, action, action_type)
    account = draft.account(tenant)
    return ActionContext(
        action=action,
        mode=action.mode or "high_stakes",
        tenant=tenant,
        agent=agent,
        tool=tool,
        org=registry.orgs.get(tenant, NO_ORG),
        freezes=registry.freezes_of(tenant, action.agent_id, action.session_id),
        bundle=bundle,
        action_type=action_type,
        reversible=reversible,
        rows=_rows(bundle, action, action_type),
        tier=_tier(bundle, tool, action_type, reversible=reversible),
        rows_before=0 if account is None else account.rows,
        actions_before=0 if account is None else account.actions,
    )


def used_entries(context: ActionContext) -> dict[str, str]:
    """ "kind/id@revision" to hash of every registry entry that the context rests on."""
    entries: list[Entry | None] = [context.agent, context.tool, context.org, *context.freezes]
    return {entry.key: entry.hash for entry in entries if entry is not None and entry.key}


def _action_type(bundle: Bundle, tool: Tool | None, action: ProposedAction) -> str:
    registered = None if tool is None else tool.action_type
    return registered or action.action_type or bundle.classified(action.tool_name)


def _reversible(bundle: Bundle, tool: Tool | None, action: ProposedAction, action_type: str) -> bool | None:
    if tool is not None and tool.reversible is not None:
        return tool.reversible
    if action.reversible is not None:
        return action.reversible
    return bundle.action_types[action_type].reversible


def _rows(bundle: Bundle, action: ProposedAction, action_type: str) -> int:
    if action.rows_affected is not None:
        return action.rows_affected
    return bundle.action_types[action_type].rows_upper_bound


def _tier(bundle: Bundle, tool: Tool | None, action_type: str, *, reversible: bool | None) -> str:
    if tool is not None and tool.tier is not None:
        return tool.tier
    return bundle.action_types[action_type].tier.of(reversible)
