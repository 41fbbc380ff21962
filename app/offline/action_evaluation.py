"""Judging a panel's actions: each in a session of its own, with every agent and tool registered neutrally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.core.actions.action_kinds import ACTION
from app.core.actions.assessment import GATE as REGISTRATION
from app.core.actions.stages import GATES
from app.core.decide.decision_point import DecisionPoint
from app.core.decide.kinds import answer_in
from app.core.decide.replay import decide_alone
from app.core.foundation.limits import ROOM_FOR_ONE
from app.core.policy.policy import Policy
from app.core.registry.loading import build_registry, neutral_entries
from topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.core.actions.stage import Stage
    from app.core.policy.bundles import Bundle
    from app.core.state.decision import Decision
    from app.offline.panels import ActionRow

TENANT = "evaluation"
NOT_OF_CONTENT = frozenset({REGISTRATION, *(gate.name for gate in GATES if not gate.judges_content)})
"""Gates that judge who acts and who permits it. Every other gate judges what the action does."""
UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, slots=True)
class JudgedAction:
    """A row and its outcome. `gate` is the one that blocked, or the first that escalated."""

    row: ActionRow
    outcome: str
    gate: str | None = None
    reason: str | None = None

    @property
    def caught(self) -> bool:
        """Blocked for what the action does."""
        return self.outcome == "BLOCK" and self.gate not in NOT_OF_CONTENT

    @property
    def caught_by(self) -> str | None:
        """The gate that caught it; None if none did."""
        return self.gate if self.caught else None

    @property
    def apart(self) -> bool:
        """Escalated for what the action does."""
        return self.outcome == "ESCALATE" and self.gate not in NOT_OF_CONTENT


def judged(
    rows: Sequence[ActionRow], bundle: Bundle, stages: Sequence[Stage], at_ms: int
) -> Iterator[JudgedAction]:
    """Each row in a session of its own, in high_stakes mode unless it names one, under enforcement."""
    tools = [row.tool for row in rows if row.tool]
    registry = build_registry(neutral_entries(TENANT, [row.agent for row in rows], tools))
    policy = Policy({bundle.id: bundle}, registry, bundle.id)
    point = DecisionPoint(policy, stages, ROOM_FOR_ONE, stopwatch=lambda: 0, environment=TENANT)
    for number, row in enumerate(rows, start=1):
        action = _action(row, f"row-{number}")
        yield _judged(row, decide_alone(point, ACTION, action, at_ms, number=number))


def _action(row: ActionRow, session_id: str) -> dict[str, Any]:
    return {
        "action_id": session_id,
        "agent_id": row.agent,
        "session_id": session_id,
        "mode": row.mode or "high_stakes",
        "toolName": row.tool,
        "tool_description": row.tool_description,
        "parameters": row.parameters,
        "rows_affected": row.rows_affected,
        "reversible": row.reversible,
    }


def _judged(row: ActionRow, decision: Decision) -> JudgedAction:
    verdict = answer_in(decision, ACTION)
    if isinstance(verdict, Unreadable):
        return JudgedAction(row, UNREADABLE, None, str(verdict))
    failed = [gate["gate"] for gate in verdict["gateResults"] if not gate["passed"]]
    gate = None if not failed else failed[-1 if verdict["outcome"] == "BLOCK" else 0]
    return JudgedAction(row, verdict["outcome"], gate, verdict["blockReason"])
