"""Before the stages: an agent or a bundle that nobody knows (product.md, "Bad input"), or another's bundle.

Denied in high_stakes, needs_human in standard, the thing named. An agent is bound by the bundle that it is
registered with, else by the installation's default: naming another would be a way round the rules. An
unregistered tool has the same row; it is decided in Gate 4, where the tier of an action is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.pipeline import Evaluation
from app.core.actions.stage import StageResult

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext

GATE = "registration"


def unregistered(context: ActionContext) -> Evaluation | None:
    """The evaluation of an action with the wrong agent or bundle; None when both are right."""
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
    if asked_for != context.bundle.id:
        return f"unknown_bundle: {asked_for}"
    return None if context.bundle_granted else f"bundle_not_granted: {asked_for}"
