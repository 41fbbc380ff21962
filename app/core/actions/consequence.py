"""Gate 2's layer 2, "consequence": how bad it would be if this action were wrong (seed 001, Gate 2, L2).

score = (reversibility x its weight + session rows x its weight + action type x its weight) / 1000, each part
and the score in per mille, weights summing to 1000: whole numbers, so that every machine gets the same score.
The rows are the session's total including this action, so a harm done in small steps is seen.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from app.core.actions.stage import StageResult
from app.core.foundation.canonical import wire_int
from app.core.policy.bundles import PER_MILLE

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext
    from app.core.policy.bundles import Bundle, Consequence


class ConsequenceScore:
    """Escalates from the bundle's `escalate_at`, blocks from its `block_at`."""

    name = "consequence"

    def evaluate(self, context: ActionContext) -> StageResult:
        """The detail holds the score, its parts and the thresholds, whatever the outcome."""
        bundle = context.bundle
        policy, rows = bundle.consequence, context.rows_before + context.rows
        parts = (
            context.reversibility,
            rows_part(bundle, rows),
            context.risk,
        )
        value = score(policy, *parts)
        detail = {
            "score_per_mille": value,
            "reversibility": parts[0],
            "rows": parts[1],
            "action_type": parts[2],
            "aggregateRowsAffected": wire_int(rows),
            "escalate_at": policy.escalate_at,
            "block_at": policy.block_at,
        }
        if value >= policy.block_at:
            return StageResult("block", f"consequence_score: {value} per mille", detail)
        if value >= policy.escalate_at:
            return StageResult("escalate", f"consequence_score: {value} per mille", detail)
        return StageResult("pass", None, detail)


def rows_part(bundle: Bundle, rows: int) -> int:
    """The row part in per mille: that of the last step whose `from_rows` is not above `rows`."""
    return bundle.row_scores[bisect_right(bundle.row_steps, rows) - 1]


def score(policy: Consequence, reversibility: int, rows: int, action_type: int) -> int:
    """The weighted sum of the three parts, in per mille, rounded down."""
    weights = policy.weights
    total = reversibility * weights.reversibility + rows * weights.rows + action_type * weights.action_type
    return total // PER_MILLE
