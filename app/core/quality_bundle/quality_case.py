"""A case of a quality bundle as written: what must come of an item under it (seed 004, "Testing")."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from app.core.foundation.strict import Instant, StrictModel
from app.core.metadata.resolution import ProvenanceStatus  # noqa: TC001 - pydantic reads the annotations
from topics.records.retrievals import (
    AutonomyTier,  # noqa: TC001 - pydantic reads the annotations
    QualityFlag,  # noqa: TC001 - pydantic reads the annotations
    QualityOutcome,  # noqa: TC001 - pydantic reads the annotations
)

Name = Annotated[str, Field(min_length=1, max_length=256)]
AgeSeconds = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]


class CaseItem(StrictModel):
    """`freshness_age_seconds`, or the `timestamp` that an item brings; with neither it brings none.

    The class and the score may be anything that an item may bring; left out, it brings none.
    """

    content_class: Any = None
    freshness_age_seconds: AgeSeconds | None = None
    timestamp: Any = None
    confidence_score: Any = None
    provenance: ProvenanceStatus = "missing"

    @model_validator(mode="after")
    def _one_age(self) -> Self:
        if self.freshness_age_seconds is not None and self.timestamp is not None:
            raise ValueError("an item has freshness_age_seconds or a timestamp")
        return self


class QualityExpected(StrictModel):
    """What must come of it; null is not looked at. `outcome` is under the class's rollout, and
    `would_have_been` what flag-only hides: "nothing" where it hides nothing."""

    outcome: QualityOutcome
    flags: list[QualityFlag] | None = None
    would_have_been: QualityOutcome | Literal["nothing"] | None = None


class QualityCase(StrictModel):
    """An item that an agent at `tier` reads at `at`, for `tool` if one is named."""

    name: Name
    item: CaseItem
    tier: AutonomyTier
    tool: Name | None = None
    expect: QualityExpected
    at: Instant = "2026-01-01T00:00:00.000Z"
