"""Gate 2's layer 2, "consequence": how bad it would be if this action were wrong (seed 001, Gate 2, L2).

score = (reversibility x its weight + session rows x its weight + action type x its weight) / 1000, each part
and the score in per mille, weights summing to 1000: whole numbers, so that every machine gets the same score.
The rows are the session's total including this action, so a harm done in small steps is seen.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from sluice.core.actions.stage import Detail, Gate, StageResult
from sluice.core.foundation.canonical import MAX_SAFE_INTEGER
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundle_frame import PER_MILLE, PerMille, Rows
from sluice.core.policy.bundles import BundlePart
from sluice_topics.records.base import LedgerCount  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import ComparedBy, PartOf, Relaxation, StricterWhen, Unordered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.core.actions.stage import ActionContext, ActionPlan


UNDONE = StricterWhen(
    "higher", "the reversibility part of what is {name} falls from {old} to {new} per mille"
)


class ByReversibility(StrictModel):
    """A per-mille value for each answer to "can it be undone?"."""

    reversible: Annotated[PerMille, UNDONE]
    irreversible: Annotated[PerMille, UNDONE]
    unknown: Annotated[PerMille, UNDONE]

    def of(self, reversible: bool | None) -> int:
        """The value for True, False or None (unknown)."""
        if reversible is None:
            return self.unknown
        return self.reversible if reversible else self.irreversible


class ConsequenceWeights(StrictModel):
    """Shares of the consequence score, in per mille, 1000 together."""

    reversibility: PerMille
    rows: PerMille
    action_type: PerMille

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.reversibility + self.rows + self.action_type != PER_MILLE:
            raise ValueError("the weights must sum to 1000")
        return self


class RowStep(StrictModel):
    """From this many rows on, the row part of the score."""

    from_rows: Annotated[Rows, PartOf("row_steps")]
    score: Annotated[PerMille, PartOf("row_steps")]


def find_step_relaxations(before: Consequence, after: Consequence) -> Iterator[Relaxation]:
    """A lower row part at some number of rows."""
    one, other = Score(before), Score(after)
    edges = sorted({step.from_rows for step in (*before.row_steps, *after.row_steps)})
    lower = [rows for rows in edges if other.rows_part(rows) < one.rows_part(rows)]
    if lower:
        sentence = f"the row part of the consequence score is lower from {lower[0]} rows on"
        yield Relaxation(sentence, "row_steps", before.row_steps, after.row_steps)


class Consequence(StrictModel):
    """Gate 2's layer 2: parts, weights and thresholds of the score, in per mille."""

    weights: Annotated[ConsequenceWeights, Unordered("the parts of the consequence score have other weights")]
    reversibility: ByReversibility
    row_steps: Annotated[list[RowStep], Field(min_length=1), ComparedBy(find_step_relaxations)]
    escalate_at: Annotated[
        PerMille, StricterWhen("lower", "a consequence score escalates from {new} per mille, not from {old}")
    ]
    block_at: Annotated[
        int,
        Field(ge=0, le=1001, description="1001 never blocks"),
        StricterWhen("lower", "a consequence score blocks from {new} per mille, not from {old}"),
    ]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        rows = [step.from_rows for step in self.row_steps]
        scores = [step.score for step in self.row_steps]
        if rows[0] != 0 or rows != sorted(set(rows)) or scores != sorted(scores):
            raise ValueError("row_steps must start at 0 rows, rise in rows and never fall in score")
        if self.escalate_at > self.block_at:
            raise ValueError("escalate_at is above block_at")
        return self


class Score:
    """A bundle's `consequence`, ready to score with."""

    __slots__ = ("_scores", "_steps", "policy", "undone")

    def __init__(self, policy: Consequence) -> None:
        self.policy = policy
        self._steps = [step.from_rows for step in policy.row_steps]
        self._scores = [step.score for step in policy.row_steps]

        @cache
        def undone(reversibilities: tuple[bool | None, ...]) -> int:
            return max(map(policy.reversibility.of, reversibilities))

        self.undone = undone
        """The reversibility part in per mille, the highest of several readings."""

    def rows_part(self, rows: int) -> int:
        """The row part in per mille: that of the last step whose `from_rows` is not above `rows`."""
        return self._scores[bisect_right(self._steps, rows) - 1]

    def total(self, reversibility: int, rows: int, action_type: int) -> tuple[int, int]:
        """The weighted sum of the three parts, in per mille, rounded down; and the row part of these rows."""
        weights, rows_part = self.policy.weights, self._scores[bisect_right(self._steps, rows) - 1]
        total = reversibility * weights.reversibility + action_type * weights.action_type
        return (total + rows_part * weights.rows) // PER_MILLE, rows_part


class ConsequenceDetail(Detail):
    """The score, its three parts and the thresholds in per mille, and the session's rows with this action's,
    from which `rows_part` follows."""

    score_per_mille: int
    reversibility: int
    rows_part: int
    action_type: int
    aggregate_rows_affected: Annotated[LedgerCount, Field(alias="aggregateRowsAffected")]
    escalate_at: int
    block_at: int


class ConsequenceScore(Gate):
    """Escalates from the bundle's `escalate_at`, blocks from its `block_at`."""

    name = "consequence"
    detail = ConsequenceDetail
    part = BundlePart(name, Consequence, compile=Score)

    def evaluate(self, context: ActionContext) -> StageResult:
        """The detail holds the score, its parts and the thresholds, whatever the outcome."""
        return self.prepare(context.plan)(context)

    def prepare(self, plan: ActionPlan) -> Callable[[ActionContext], StageResult]:
        """With the two parts of the score that follow from the plan."""
        score: Score = plan.bundle.parts[self.name]
        policy, undone, risk = score.policy, score.undone(plan.reversibilities), plan.risk

        def evaluate(context: ActionContext) -> StageResult:
            rows = context.session_rows
            value, rows_part = score.total(undone, rows, risk)
            detail = {
                "score_per_mille": value,
                "reversibility": undone,
                "rows_part": rows_part,
                "action_type": risk,
                "aggregateRowsAffected": rows if rows <= MAX_SAFE_INTEGER else str(rows),
                "escalate_at": policy.escalate_at,
                "block_at": policy.block_at,
            }
            if value >= policy.block_at:
                return StageResult("block", f"consequence_score: {value} per mille", detail)
            if value >= policy.escalate_at:
                return StageResult("escalate", f"consequence_score: {value} per mille", detail)
            return StageResult("pass", None, detail)

        return evaluate
