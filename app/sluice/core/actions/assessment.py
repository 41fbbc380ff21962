"""What the gates do not ask of an action: is its agent known, is the bundle its own, is it still in time?

An agent or a bundle that is not known is denied in high_stakes and needs a person in standard, the thing
named (product.md, "Bad input"). An agent is bound by the bundle that it is registered with, else by the
installation's default: naming another would be a way round the rules. So that it is no way round a denial
either, the agent's own bundle judges in standard mode. An unregistered tool has the same row; it is decided
in Gate 4, where the tier of an action is.

An action whose `deadline_ms` is over when it is decided is never allowed: its caller no longer waits for the
verdict, and acting on it later would be acting on old totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.actions.pipeline import DEADLINE_ELAPSED, Evaluation
from sluice.core.actions.stage import (
    ActionContext,
    StageResult,
)
from sluice.core.foundation.canonical import wire_int

if TYPE_CHECKING:
    from sluice_topics.records import ProposedAction


GATE = "registration"
DEADLINE = "deadline"


def evaluate_unregistered(context: ActionContext) -> Evaluation | None:
    """The evaluation of an action that no gate needs to look at; None for one that the gates judge."""
    missing = _name_missing(context)
    if missing is None:
        return None
    evaluation = Evaluation()
    _object(evaluation, context.plan.mode, GATE, StageResult("block", missing))
    return evaluation


def _name_missing(context: ActionContext) -> str | None:
    if context.plan.agent is None:
        return f"unknown_agent: {context.action.agent_id}"
    asked_for = context.plan.bundle_asked_for
    if not context.plan.granted:
        return None if context.plan.mode == "standard" else _not_granted(context)
    return None if asked_for == context.plan.bundle.id else f"unknown_bundle: {asked_for}"


def object_to(context: ActionContext, evaluation: Evaluation, waited_ms: int) -> None:
    """Make of what the gates found what it comes to under a bundle that is not the agent's, and too late."""
    if evaluation.outcome == "BLOCK":
        return
    if context.plan.agent is not None and not context.plan.granted:
        _object(evaluation, context.plan.mode, GATE, StageResult("block", _not_granted(context)))
    object_to_lateness(context, evaluation, waited_ms)


def object_to_lateness(context: ActionContext, evaluation: Evaluation, waited_ms: int) -> None:
    """Make of what the gates found what it comes to where the action comes too late."""
    if context.action.deadline_ms is None or evaluation.outcome == "BLOCK":
        return
    late = find_lateness(context.action, waited_ms)
    if late is not None:
        _object(evaluation, context.plan.mode, DEADLINE, late)


def find_lateness(action: ProposedAction, waited_ms: int) -> StageResult | None:
    """What speaks against an action that has lain for so long; None while it is in time."""
    deadline_ms = action.deadline_ms
    if deadline_ms is None or waited_ms < deadline_ms:
        return None
    reason = f"{DEADLINE_ELAPSED}: after {waited_ms} ms, the caller waits {deadline_ms} ms"
    detail = {"deadline_ms": wire_int(deadline_ms), "waited_ms": wire_int(waited_ms)}
    return StageResult("block", reason, detail)


def _not_granted(context: ActionContext) -> str:
    return f"bundle_not_granted: {context.plan.bundle_asked_for}"


def _object(evaluation: Evaluation, mode: str, gate: str, against: StageResult) -> None:
    """In standard an escalation that is there already keeps its reason."""
    evaluation.list_gate(gate, against, 0)
    if mode == "high_stakes":
        evaluation.settle("BLOCK", against.reason)
    elif evaluation.outcome == "ALLOW":
        evaluation.settle("ESCALATE", against.reason)
