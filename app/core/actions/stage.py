"""What a stage of the action pipeline is: a name and one pure method, from the context to a result.

Seed 001, "Gate Pipeline". A stage that needs the outside returns an `Ask` (see app/core/requests.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from app.core.actions.acknowledgement import NOTHING, Acknowledgement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.bundles import Bundle
    from app.core.registry import Registry
    from app.core.registry_entries import Agent, Freeze, Org, Tool
    from app.core.requests import Ask
    from topics.records import ProposedAction

_NO_DETAIL: Mapping[str, Any] = {}
StageOutcome = Literal["pass", "block", "escalate", "skip"]
"""A stage gives one of the first three; "skip" is the pipeline's, for a budget overrun in standard mode."""


class StageResult(NamedTuple):
    """`reason` is set unless the stage passed; `detail` goes into the verdict's gateResults (JSON values,
    finite numbers), `evidence` into its evidence_refs, `rules` into its rule_results. `entries`: further
    registry entries that the stage rests on, "kind/id@revision" to hash."""

    outcome: StageOutcome
    reason: str | None = None
    detail: Mapping[str, Any] = _NO_DETAIL
    evidence: tuple[str, ...] = ()
    obligations: tuple[str, ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    entries: Mapping[str, str] = _NO_DETAIL


@dataclass(slots=True)
class ActionContext:
    """All that a stage may look at.

    `bundle` is the one `bundle_asked_for`, or the default where nobody knows it; `bundle_granted` says
    whether it is the agent's own. `now_ms` is the input's broker time. `rows` is what this action counts for,
    `rows_before` the session's total without it, `reversible` None for unknown, `escalated` the reason of an
    earlier stage that escalated, `flags`
    what was read in the session and is flagged. `tool` is None when unregistered.
    """

    action: ProposedAction
    mode: Literal["standard", "high_stakes"]
    tenant: str
    agent: Agent | None
    tool: Tool | None
    org: Org
    freezes: tuple[Freeze, ...]
    bundle: Bundle
    bundle_asked_for: str
    bundle_granted: bool
    action_type: str
    reversible: bool | None
    rows: int
    tier: str
    rows_before: int
    actions_before: int
    entries: dict[str, str]
    registry: Registry
    now_ms: int
    escalated: str | None = None
    flags: Acknowledgement = NOTHING


class Stage(Protocol):
    """One gate. `name` is the gate's name in settings, verdicts and docs."""

    @property
    def name(self) -> str:
        """The gate's name."""

    def evaluate(self, context: ActionContext) -> StageResult | Ask:
        """Decide, without changing anything."""


PASSED = StageResult("pass")
