"""A bundle's `memory` section: every number and table that the memory gate uses (seeds 003, 004)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.core.content.sets import ContentSets
from app.core.foundation.strict import StrictModel
from app.core.metadata.write_quality import WriteQuality
from app.core.policy.similarity_settings import SimilaritySettings  # noqa: TC001 - pydantic reads the annotations
from app.core.policy.trust_policy import AtLeastOne, SeedNames, TrustPolicy
from topics.catalog import INPUT_RETENTION_MS


class AnalysisPolicy(StrictModel):
    """A bundle's `memory.analysis`: how a model is asked if `memory.trust.llmAnalysis` says so.

    The model sees only the first and last characters of a longer content. `on_failure` is the effect of a
    missing answer (down, over `budget_ms`, unreadable): "quarantine" keeps the write below the write
    threshold.
    """

    on_failure: Literal["quarantine", "ignore"] = "quarantine"
    budget_ms: Annotated[int, Field(ge=1, le=600_000)] = 10_000
    head_characters: Annotated[int, Field(ge=1, le=200_000)] = 16_000
    tail_characters: Annotated[int, Field(ge=0, le=200_000)] = 8_000


MOST_REVIEW_MS = INPUT_RETENTION_MS
"""After a longer wait a memory could not be released: its content would have left the input topic."""


class MemoryPolicy(SeedNames):
    """`enabled: false` allows every write with a score of -1. `review_after_ms`: how long a quarantined
    memory waits for a reviewer before it expires. `lineage_budget_ms`: the deadline for finding parents of
    other sessions in the ledger.

    Without `similarity` no encoder is asked; a model is asked if `trust.llmAnalysis` says so.
    """

    enabled: bool = True
    review_after_ms: Annotated[AtLeastOne, Field(alias="quarantineReviewMs", le=MOST_REVIEW_MS)] = 3_600_000
    lineage_budget_ms: Annotated[AtLeastOne, Field(le=600_000)] = 2_000
    trust: TrustPolicy = TrustPolicy()
    quality: WriteQuality = WriteQuality()
    content: ContentSets = ContentSets()
    similarity: SimilaritySettings | None = None
    analysis: AnalysisPolicy = AnalysisPolicy()
