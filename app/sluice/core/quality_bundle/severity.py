"""The order of seed 004's four outcomes: the severest of several wins."""

from __future__ import annotations

from typing import get_args

from sluice_topics.records.retrievals import AutonomyTier, Dimension, QualityOutcome

OUTCOMES: tuple[QualityOutcome, ...] = get_args(QualityOutcome)
"""The mildest first."""
TIERS: tuple[AutonomyTier, ...] = get_args(AutonomyTier)
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
SEVERITY: dict[QualityOutcome, int] = {outcome: place for place, outcome in enumerate(OUTCOMES)}


def milder(one: QualityOutcome, other: QualityOutcome) -> bool:
    """Whether the first outcome is milder than the second."""
    return SEVERITY[one] < SEVERITY[other]
