"""Gate "controls": nothing of a frozen tenant, agent or session goes on (product.md, pipeline step 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from app.core.actions.stage import PASSED, Detail, Gate, StageResult

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext


class FreezeFound(BaseModel):
    """A freeze by its id in the registry, and what it names: "tenant", "agent" or "session"."""

    id: str
    subject: str


class ControlsDetail(Detail):
    """Nothing where no freeze was found."""

    freezes: list[FreezeFound] | None = None


class Controls(Gate):
    """Blocks when the registry holds an active freeze of the action's tenant, agent or session."""

    name = "controls"
    detail = ControlsDetail
    judges_content = False

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
