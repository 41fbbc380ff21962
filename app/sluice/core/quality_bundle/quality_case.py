"""A quality bundle's own cases (seed 004, "Testing"): an item, and its required result under the bundle."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sluice.core.foundation.strict import Instant, Name, StrictModel
from sluice.core.metadata.provenance import ProvenanceStatus  # noqa: TC001 - pydantic reads the annotations
from sluice.core.quality_bundle.severity import is_milder
from sluice_topics.records.retrievals import (  # noqa: TC001 - the same
    AutonomyTier,
    QualityFlag,
    QualityOutcome,
)
from sluice_topics.relaxations import Neutral

AgeSeconds = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]


class CaseItem(StrictModel):
    """An item of a case, with `freshness_age_seconds`, or with the item's `timestamp`; with neither, the
    item has no time.

    Class and score may have any value that an item may have; left out, the item has none.
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
    """The required result; null is not compared. `outcome` is the one under the class's rollout, and
    `would_have_been` the one that flag-only hides: "nothing" if it hides none."""

    outcome: QualityOutcome
    flags: list[QualityFlag] | None = None
    would_have_been: QualityOutcome | Literal["nothing"] | None = None


def expects_stricter(new: QualityExpected, old: QualityExpected) -> bool:
    """Whether a case expects a severer outcome than before."""
    return is_milder(old.outcome, new.outcome)


class QualityCase(StrictModel):
    """An item that an agent at `tier` reads at `at`, for `tool` if one is named."""

    unmarked: ClassVar = Neutral("compared as a whole, with the other cases")

    name: Name
    item: CaseItem
    tier: AutonomyTier
    tool: Name | None = None
    expect: QualityExpected
    at: Instant = "2026-01-01T00:00:00.000Z"
