"""What an action is, before any gate judges it: who acts, on which tool, of which type, tier and size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.acknowledgement import acknowledgement
from app.core.actions.stage import ActionContext
from app.core.registry_entries import hashes_of

if TYPE_CHECKING:
    from app.core.draft import SessionDraft
    from app.core.point import PointParts
    from topics.records import ProposedAction


def assess(
    parts: PointParts, action: ProposedAction, draft: SessionDraft, arrived_at_ms: int
) -> ActionContext:
    """The context of an action on the session's values so far."""
    known = parts.standing(
        action.agent_id,
        action.tool_name,
        action.action_type,
        action.reversible,
        action.policy_bundle_id,
    )
    registry = parts.policy.registry
    account = draft.account(known.tenant)
    rows = action.rows_affected
    return ActionContext(
        action,
        action.mode or "high_stakes",
        known.tenant,
        known.agent,
        known.tool,
        known.org,
        registry.freezes_of(known.tenant, action.agent_id, action.session_id),
        known.bundle,
        known.bundle_asked_for,
        known.granted,
        known.action_type,
        known.reversible,
        known.rows_upper_bound if rows is None else rows,
        known.tier,
        0 if account is None else account.rows,
        0 if account is None else account.actions,
        known.entries,
        registry,
        arrived_at_ms,
        flags=acknowledgement(draft.served_flags(known.tenant), action.acknowledged_flags),
    )


def used_entries(context: ActionContext) -> dict[str, str]:
    """ "kind/id@revision" to hash of every registry entry that the context rests on."""
    if not context.freezes:
        return context.entries
    return context.entries | hashes_of(*context.freezes)
