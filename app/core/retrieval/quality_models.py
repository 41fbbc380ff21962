"""A quality bundle as it is written down (seed 004, "Deployment"; product.md, "Retrievals").

Every table is by content class. What the tables must hold together is in `quality_checks`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from app.core.bundles import LONGEST_WAIT_MS, MAX_CASES, Name
from app.core.clock import milliseconds_of
from app.core.memory.quality import ClassName
from app.core.retrieval.quality_cases import QualityCase  # noqa: TC001 - pydantic reads the annotations
from app.core.retrieval.quality_checks import fault_in
from app.core.retrieval.severity import milder
from app.core.strict import Instant, StrictModel
from topics.records.retrievals import AutonomyTier, Dimension, QualityOutcome

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
"""Up to 30 000 years: further back no timestamp goes."""
WholeSeconds = Annotated[int, Field(ge=0, le=LONGEST_WAIT_MS // 1000)]
Days = Annotated[int, Field(ge=1, le=3650)]
Impact = Literal["read_only", "low", "medium", "high", "financial", "production_write"]
IMPACTS: tuple[Impact, ...] = get_args(Impact)
"""The lowest first: in this order classes are promoted to enforce (seed 004, "Safe rollout")."""
RolloutMode = Literal["flag_only", "enforce"]
Reason = Annotated[str, Field(min_length=10, max_length=4096)]
Scheme = Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]{0,31}$")]
ContentWeight = Literal["strong", "definite"]
ByClass = dict[ClassName, QualityOutcome]
MAX_CLASSES = 256


class Rollout(StrictModel):
    """Whether a class's outcomes bind, and since when it is so; not before 1970, from which times are
    counted."""

    mode: RolloutMode
    since: Instant

    @field_validator("since")
    @classmethod
    def _counted(cls, value: str) -> str:
        if milliseconds_of(value) < 0:
            raise ValueError("before 1970")
        return value


class Promotion(StrictModel):
    """What a class in flag-only must show before it is enforced: days with decisions since its rollout began,
    decisions, and the share of them that would have been denied at most."""

    min_days: Annotated[int, Field(ge=1, le=3650)] = 14
    max_false_deny_rate: Share = 0.02
    min_decisions: Annotated[int, Field(ge=1, le=2**53 - 1)] = 100


class Access(StrictModel):
    """Who may read a class at all; null: every tenant."""

    tenants: Annotated[list[Name], Field(max_length=4096)] | None


class ContentActions(StrictModel):
    """What a finding of this weight in an item's body makes of it (C08). Inconclusive counts as strong."""

    strong: QualityOutcome
    definite: QualityOutcome

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if milder(self.definite, self.strong):
            raise ValueError("a definite finding is milder than a strong one")
        return self


class ContentByTier(StrictModel):
    """As shipped: the more an agent may do, the less of a doubtful text it gets."""

    sandbox: ContentActions = ContentActions(strong="flag", definite="downgrade")
    bounded: ContentActions = ContentActions(strong="downgrade", definite="deny")
    high_privilege: ContentActions = ContentActions(strong="deny", definite="deny")


class QualityBundleFile(StrictModel):
    """Times to live in seconds, null for no limit; one of a tool goes before the class's own.

    `default_by_class` stands where the matrix says nothing. `rationale`: why there is this revision.
    `rollout_window_days`: how long a class may stay in flag-only before `alarm_recipient` hears of it.
    `provenance_max_age_s`: an older resolution counts as none (null: it never does); one older than
    `provenance_refresh_s`, and one that led nowhere than `provenance_retry_s`, is asked for again. A deny at
    high_privilege for one of `high_impact_categories` opens an escalation, for `escalation_ttl_ms`.
    """

    id: Name
    revision: Annotated[int, Field(ge=1, le=2**53 - 1)]
    description: str
    rationale: Reason
    ttl_by_class: dict[ClassName, Seconds | None]
    ttl_by_tool: dict[Name, dict[ClassName, Seconds | None]] = Field(default_factory=dict)
    min_confidence_by_class: dict[ClassName, Share]
    provenance_required_by_class: dict[ClassName, bool]
    default_by_class: ByClass = Field(default_factory=dict)
    action_matrix: dict[AutonomyTier, dict[ClassName, dict[Dimension, QualityOutcome]]]
    rollout: Annotated[dict[ClassName, Rollout], Field(min_length=1, max_length=MAX_CLASSES)]
    rollout_window_days: Days = 14
    alarm_recipient: Annotated[str, Field(min_length=1, max_length=1024)]
    promotion: Promotion = Promotion()
    impact_by_class: dict[ClassName, Impact] = Field(default_factory=dict)
    high_impact_categories: list[Name] = Field(default_factory=list)
    escalation_ttl_ms: Annotated[int, Field(ge=1, le=LONGEST_WAIT_MS)]
    access: dict[ClassName, Access] = Field(default_factory=dict)
    content_actions: ContentByTier = ContentByTier()
    provenance_schemes: Annotated[list[Scheme], Field(min_length=1, max_length=64)] = Field(
        default_factory=lambda: ["http", "https", "gate-source", "gate-feed"]
    )
    provenance_max_age_s: WholeSeconds | None = None
    provenance_refresh_s: WholeSeconds = 86_400
    provenance_retry_s: WholeSeconds = 900
    cases: Annotated[list[QualityCase], Field(max_length=MAX_CASES)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        fault = fault_in(self)
        if fault is not None:
            raise ValueError(fault)
        return self
