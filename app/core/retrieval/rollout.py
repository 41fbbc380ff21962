"""A class in flag-only: its items are judged and never withheld (seed 004, "Safe rollout")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.retrieval.severity import milder

if TYPE_CHECKING:
    from app.core.retrieval.quality_bundle import QualityBundle
    from topics.records.retrievals import QualityOutcome


def under_rollout(
    bundle: QualityBundle, content_class: str | None, outcome: QualityOutcome
) -> tuple[QualityOutcome, QualityOutcome | None]:
    """What the quality gate's outcome comes to, and in flag-only what it would have been, else None."""
    if bundle.rollout_of(content_class) != "flag_only":
        return outcome, None
    return ("flag" if milder("flag", outcome) else outcome), outcome
