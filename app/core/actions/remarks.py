"""Advisories about the input itself: remarks for people that change no decision (seed 002)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.acknowledgement import advisory

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext

_MODE_ABSENT = {
    "source": "sluice.mode",
    "text": "no mode was declared: decided as high_stakes",
    "severity": "info",
}


def remarks(context: ActionContext) -> list[dict[str, Any]]:
    """On an absent mode, totals that are not the session's, and flags that nobody acknowledged."""
    action = context.action
    found = [] if action.mode else [_MODE_ABSENT]
    _compare(found, "aggregateRowsAffected", action.aggregate_rows_affected, context.rows_before)
    _compare(found, "aggregateActionCount", action.aggregate_action_count, context.actions_before)
    if context.flags.outstanding:
        found.append(advisory(context.flags.outstanding))
    return found


def _compare(found: list[dict[str, Any]], name: str, claimed: int | None, ours: int) -> None:
    if claimed is not None and claimed != ours:
        text = f"the caller's {name} is {claimed}, the session's is {ours}; the session's counts"
        found.append({"source": "sluice.session", "text": text, "severity": "warn"})
