"""Gate "controls": nothing of a frozen tenant, agent or session goes on (product.md, pipeline step 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.stage import PASSED, StageResult

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext


class Controls:
    """Blocks when the registry holds an active freeze of the action's tenant, agent or session."""

    name = "controls"

    def evaluate(self, context: ActionContext) -> StageResult:
        """The first freeze found is the reason; all of them are in the detail."""
        if not context.freezes:
            return PASSED
        first = context.freezes[0]
        return StageResult(
            "block",
            f"frozen_{first.subject}: {first.reason}",
            {"freezes": [{"id": one.id, "subject": one.subject} for one in context.freezes]},
        )
