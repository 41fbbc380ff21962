"""What an action is, before any gate judges it: who acts, on which tool, of which type, tier and size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.stage import ActionContext, inspect
from app.core.policy.standing import rows_counted
from app.core.registry.registry_entries import hashes_of
from app.core.state.acknowledgement import acknowledgement

if TYPE_CHECKING:
    from app.core.actions.seen import ActionSeen
    from app.core.commands.inspection import Inspection
    from app.core.policy.point import PointParts
    from app.core.policy.standing import Standing
    from topics.records import ProposedAction


def standing_of(parts: PointParts, action: ProposedAction) -> Standing:
    """What registry and bundle say of the action, before its session is looked at."""
    return parts.standing(
        action.agent_id,
        action.tool_name,
        action.action_type,
        action.reversible,
        action.policy_bundle_id,
    )


def assess(
    parts: PointParts, action: ProposedAction, known: Standing, seen: ActionSeen, arrived_at_ms: int
) -> ActionContext:
    """The context of an action, on what was seen of its session."""
    principal = known.principal
    rows, inspection = _rows(known, action)
    return ActionContext(
        action,
        action.mode or "high_stakes",
        principal.tenant,
        principal.agent,
        known.tool,
        principal.org,
        parts.policy.freezes_of(principal, action.session_id),
        principal.bundle,
        known.bundle_asked_for,
        known.granted,
        known.action_type,
        known.types,
        known.reversible,
        known.risk,
        known.reversibilities,
        rows,
        known.tightened or rows > known.rows_upper_bound,
        known.tier,
        seen.rows,
        seen.actions,
        known.entries,
        parts.policy.registry,
        arrived_at_ms,
        inspection,
        flags=acknowledgement(seen.flags, action.acknowledged_flags),
        remembered=seen.remembered,
    )


def _rows(known: Standing, action: ProposedAction) -> tuple[int, Inspection | None]:
    """What the action counts for, and what was read to tell: a trusted 0 is unknown all the same for a call
    that reads as a change."""
    rows = rows_counted(known.tool, action.rows_affected, known.rows_upper_bound)
    if rows > 0:
        return rows, None
    inspection = inspect(known.principal.bundle, known.types, action)
    return known.rows_upper_bound if inspection.changes else 0, inspection


def used_entries(context: ActionContext) -> dict[str, str]:
    """ "kind/id@revision" to hash of every registry entry that the context rests on."""
    if not context.freezes:
        return context.entries
    return context.entries | hashes_of(*context.freezes)
