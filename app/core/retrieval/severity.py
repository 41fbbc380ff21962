"""The order of seed 004's four outcomes: of several the most severe wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from topics.records.retrievals import AutonomyTier, Dimension, QualityOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

OUTCOMES: tuple[QualityOutcome, ...] = get_args(QualityOutcome)
"""The mildest first."""
TIERS: tuple[AutonomyTier, ...] = get_args(AutonomyTier)
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
SEVERITY: dict[QualityOutcome, int] = {outcome: place for place, outcome in enumerate(OUTCOMES)}


def most_severe(outcomes: Iterable[QualityOutcome]) -> QualityOutcome:
    """Of none it is a pass."""
    return max(outcomes, key=SEVERITY.__getitem__, default="pass")


def milder(one: QualityOutcome, other: QualityOutcome) -> bool:
    """Whether the first lets more through than the second."""
    return SEVERITY[one] < SEVERITY[other]
