"""Before the stages: an agent or a bundle that nobody knows (product.md, "Bad input").

Denied in high_stakes, needs_human in standard, the missing thing named. An unregistered tool has the same
row; it is decided in Gate 4, where the tier of an action is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.pipeline import Evaluation
from app.core.actions.stage import StageResult

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext

GATE = "registration"


def unregistered(context: ActionContext) -> Evaluation | None:
    """The evaluation of an action with an unknown agent or bundle, None when both are known."""
    missing = _missing(context)
    if missing is None:
        return None
    outcome = "BLOCK" if context.mode == "high_stakes" else "ESCALATE"
    evaluation = Evaluation(outcome, missing)
    evaluation.list_gate(GATE, StageResult("block", missing), 0)
    return evaluation


def _missing(context: ActionContext) -> str | None:
    if context.agent is None:
        return f"unknown_agent: {context.action.agent_id}"
    asked_for = context.bundle_asked_for
    return None if asked_for == context.bundle.id else f"unknown_bundle: {asked_for}"
