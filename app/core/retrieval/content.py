"""C08 behind the quality gate: what the findings in a body make of an item that is fit to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.content.inspection import Inspection
    from app.core.retrieval.quality_bundle import QualityBundle
    from app.core.retrieval.quality_models import ContentWeight
    from topics.records.retrievals import AutonomyTier, QualityOutcome

WEIGHTS: tuple[ContentWeight, ...] = ("definite", "strong")
INCONCLUSIVE: ContentWeight = "strong"
"""A text beyond a bound was read by a linear scan alone: no more is known of it than of a strong find."""


def content_action(
    bundle: QualityBundle, tier: AutonomyTier, found: Inspection
) -> tuple[QualityOutcome, str | None]:
    """The outcome and its reason; weak and framed findings are listed and change nothing."""
    for weight in WEIGHTS:
        for one in found.findings:
            if one.weight == weight:
                return bundle.content_outcome(tier, weight), f"{one.id}: {one.reason}"
    if found.inconclusive is not None:
        return bundle.content_outcome(tier, INCONCLUSIVE), f"inconclusive: {found.inconclusive}"
    return "pass", None
