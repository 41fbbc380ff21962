"""What a stage of the action pipeline is: a name and one pure method, from the context to a result.

Seed 001, "Gate Pipeline". A stage that needs the outside returns an `Ask` (see app/core/requests.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from app.core.bundles import Bundle
    from app.core.registry import Agent, Freeze, Org, Tool
    from app.core.requests import Ask
    from topics.records import ProposedAction

StageOutcome = Literal["pass", "block", "escalate", "skip"]
"""A stage gives one of the first three; the pipeline enters "skip" where a budget ran out in standard mode."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """`reason` is set unless the stage passed; `detail` goes into the verdict's gateResults (JSON values,
    finite numbers); `evidence` into its evidence_refs."""

    outcome: StageOutcome
    reason: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    obligations: tuple[str, ...] = ()


@dataclass(slots=True)
class ActionContext:
    """All that a stage may look at.

    `rows` is what this action counts for, `rows_before` the session's total without it, `reversible` None for
    unknown, `escalated` the reason of an earlier stage that escalated. `tool` is None when unregistered.
    """

    action: ProposedAction
    mode: Literal["standard", "high_stakes"]
    tenant: str
    agent: Agent | None
    tool: Tool | None
    org: Org
    freezes: tuple[Freeze, ...]
    bundle: Bundle
    action_type: str
    reversible: bool | None
    rows: int
    tier: str
    rows_before: int
    actions_before: int
    escalated: str | None = None


class Stage(Protocol):
    """One gate. `name` is the gate's name in settings, verdicts and docs."""

    @property
    def name(self) -> str:
        """The gate's name."""

    def evaluate(self, context: ActionContext) -> StageResult | Ask:
        """Decide, without changing anything."""


PASSED = StageResult("pass")
