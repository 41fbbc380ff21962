"""The orders of seed 004: of its four outcomes, of which the severest of several wins, and of impacts."""

from __future__ import annotations

from typing import Literal, get_args

from sluice_topics.records.retrievals import AutonomyTier, Dimension, QualityOutcome

OUTCOMES: tuple[QualityOutcome, ...] = get_args(QualityOutcome)
"""The mildest first."""
TIERS: tuple[AutonomyTier, ...] = get_args(AutonomyTier)
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
Impact = Literal["read_only", "low", "medium", "high", "financial", "production_write"]
IMPACTS: tuple[Impact, ...] = get_args(Impact)
"""The lowest first: in this order classes are promoted to enforce (seed 004, "Safe rollout")."""
SEVERITY: dict[QualityOutcome, int] = {outcome: index for index, outcome in enumerate(OUTCOMES)}


def is_milder(one: QualityOutcome, other: QualityOutcome) -> bool:
    """Whether the first outcome is milder than the second."""
    return SEVERITY[one] < SEVERITY[other]
