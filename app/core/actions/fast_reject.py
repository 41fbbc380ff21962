"""Gate 1, "fast_reject": what no model needs to be asked about (seed 001, Gate 1; p99 below 1 ms).

Three checks, in this order: forbidden targets of the organisation, irreversible actions above the row
threshold, forbidden patterns of the bundle. Reversibility that neither the registry, nor the caller, nor the
bundle's default for the action type knows counts as irreversible here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.stage import PASSED, StageResult
from app.core.actions.texts import joined_texts
from app.core.ledger.canonical import wire_int

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext


class FastReject:
    """Blocks or passes; it never escalates."""

    name = "fast_reject"

    def evaluate(self, context: ActionContext) -> StageResult:
        """Blocks with `forbidden_target`, `irreversible_rows` or `forbidden_pattern` and what was hit."""
        text = joined_texts(context.action.tool_name, context.action.parameters)
        targets = context.org.forbidden.matches(text.casefold())
        if targets:
            return StageResult("block", f"forbidden_target: {targets[0]}", {"targets": targets})
        if context.reversible is not True and context.rows > _threshold(context):
            return _too_many_rows(context)
        hits = context.bundle.patterns.matches(text)
        if hits:
            return StageResult(
                "block", f"forbidden_pattern: {hits[0].id}", {"patterns": [_named(hit) for hit in hits]}
            )
        return PASSED


def _threshold(context: ActionContext) -> int:
    own = context.org.irreversible_row_threshold
    return context.bundle.irreversible_row_threshold if own is None else own


def _too_many_rows(context: ActionContext) -> StageResult:
    threshold = _threshold(context)
    detail: dict[str, Any] = {"rows": wire_int(context.rows), "threshold": threshold}
    return StageResult("block", f"irreversible_rows: {context.rows} above {threshold}", detail)


def _named(hit: Any) -> dict[str, str]:
    return {"id": hit.id, "reason": hit.reason, "severity": hit.severity}
