"""The written form of a quality bundle and its cases (seed 004, "Deployment", "Testing"; product.md).

Every table is by content class. `fault_in` checks the conditions that join several tables. A case gives an
item and its required result under the bundle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from sluice.core.foundation.clock import milliseconds_of
from sluice.core.foundation.content_judge import JudgeWhen  # noqa: TC001 - pydantic reads the annotations
from sluice.core.foundation.strict import (
    LONGEST_WAIT_MS,
    MAX_CASES,
    Installations,
    Instant,
    Name,
    StrictModel,
)
from sluice.core.metadata.provenance import ProvenanceStatus  # noqa: TC001 - pydantic reads the annotations
from sluice.core.metadata.write_quality import ClassName
from sluice.core.quality_bundle.lookup import Tables
from sluice.core.quality_bundle.severity import milder
from sluice_topics.records.retrievals import (
    AutonomyTier,
    Dimension,
    QualityFlag,
    QualityOutcome,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator


def tables_of(file: QualityBundleFile) -> Tables:
    """The file's tables; a class is known if any part of the file names it."""
    return Tables(
        file.ttl_by_class,
        file.ttl_by_tool,
        file.min_confidence_by_class,
        file.provenance_required_by_class,
        file.default_by_class,
        dict(file.action_matrix.items()),
        frozenset().union(file.rollout, file.impact_by_class, file.access),
    )


ENFORCED: dict[AutonomyTier, tuple[Dimension, ...]] = {
    "high_privilege": ("freshness", "confidence", "provenance"),
    "bounded": ("freshness", "confidence"),
}
"""Seed 004, "Interaction with the autonomy tier": sandbox may be flag-only, bounded for provenance alone."""
LETS_THROUGH = ("pass", "flag")


def fault_in(file: QualityBundleFile) -> str | None:
    """The first condition that does not hold, None if all hold."""
    return next((fault for faults in (_gaps(file), _holes(file), _strays(file)) for fault in faults), None)


def _gaps(file: QualityBundleFile) -> Iterator[str]:
    complete: dict[str, Container[str]] = {
        "ttl_by_class": file.ttl_by_class,
        "min_confidence_by_class": file.min_confidence_by_class,
        "provenance_required_by_class": file.provenance_required_by_class,
        "rollout": file.rollout,
    }
    for name in sorted(tables_of(file).classes()):
        for table, by_class in complete.items():
            if name not in by_class:
                yield f"{table} lacks the class {name}"


def _holes(file: QualityBundleFile) -> Iterator[str]:
    tables = tables_of(file)
    enforced = sorted(name for name, rollout in file.rollout.items() if rollout.mode == "enforce")
    for tier, dimensions in ENFORCED.items():
        for name in enforced:
            for dimension in dimensions:
                outcome = tables.outcome(tier, name, dimension)
                if outcome in LETS_THROUGH:
                    yield (
                        f"action_matrix.{tier}.{name}.{dimension} comes to {outcome}: "
                        "outside flag-only it must be downgrade or deny"
                    )


def _strays(file: QualityBundleFile) -> Iterator[str]:
    names = [case.name for case in file.cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two cases are called {name}"


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
"""Up to 30 000 years: no timestamp is older."""
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
    """Whether a class's outcomes are enforced, and since when; not before 1970, where the count of times
    begins."""

    mode: RolloutMode
    since: Instant

    @field_validator("since")
    @classmethod
    def _counted(cls, value: str) -> str:
        if milliseconds_of(value) < 0:
            raise ValueError("before 1970")
        return value


class Promotion(StrictModel):
    """The conditions before a class in flag-only is enforced: the number of days with decisions since its
    rollout began, the number of decisions, and the highest share of them that would have been denied."""

    min_days: Annotated[int, Field(ge=1, le=3650)] = 14
    max_false_deny_rate: Share = 0.02
    min_decisions: Annotated[int, Field(ge=1, le=2**53 - 1)] = 100


class Access(StrictModel):
    """The tenants that may read a class; null: every tenant."""

    tenants: Annotated[list[Name], Field(max_length=4096)] | None


class ContentActions(StrictModel):
    """The outcome of an item whose body has a finding of this weight (C08). Inconclusive counts as strong."""

    strong: QualityOutcome
    definite: QualityOutcome

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if milder(self.definite, self.strong):
            raise ValueError("a definite finding is milder than a strong one")
        return self


class ContentByTier(StrictModel):
    """Content actions by tier. As shipped, an agent with more rights gets less of a doubtful text."""

    sandbox: ContentActions = ContentActions(strong="flag", definite="downgrade")
    bounded: ContentActions = ContentActions(strong="downgrade", definite="deny")
    high_privilege: ContentActions = ContentActions(strong="deny", definite="deny")


class ContentJudge(StrictModel):
    """When a model is asked about a body; "in_doubt": where the detectors found something weak or framed
    (quoted, reported), or could not read it all. It is not asked about a body that is not released anyway.

    Below a trust of `strong_below` an answer counts as a strong finding, below `definite_below` as a definite
    one, for `content_actions`. Of a request at most `most_items` bodies are asked about, together within
    `budget_ms`, and of each at most `most_characters` are shown. `on_failure`: what a body counts as that was
    not asked about for want of room, got no answer, or was not shown whole and not objected to."""

    judge: JudgeWhen = "off"
    strong_below: Share = 0.7
    definite_below: Share = 0.3
    most_items: Annotated[int, Field(ge=1, le=64)] = 8
    most_characters: Annotated[int, Field(ge=256, le=400_000)] = 16_000
    budget_ms: Annotated[int, Field(ge=1, le=600_000)] = 2_000
    on_failure: Literal["strong", "ignore"] = "strong"

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.definite_below > self.strong_below:
            raise ValueError("definite_below is above strong_below")
        return self


class QualityBundleFile(StrictModel):
    """`installations`: those that the bundle is for; null: any that trusts its signer.

    Times to live are in seconds, null for no limit; a tool's time to live takes precedence over the
    class's.

    `default_by_class` counts where the matrix has no outcome. `rationale`: the reason for this revision.
    `rollout_window_days`: how long a class may stay in flag-only before `alarm_recipient` gets an alarm.
    `provenance_max_age_s`: an older resolution does not count (null: no limit). A resolution older than
    `provenance_refresh_s`, or a failed one older than `provenance_retry_s`, is requested again. A deny at
    high_privilege for one of `high_impact_categories` opens an escalation, for `escalation_ttl_ms`.
    """

    id: Name
    revision: Annotated[int, Field(ge=1, le=2**53 - 1)]
    installations: Installations | None = None
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
    content_judge: ContentJudge = ContentJudge()
    provenance_schemes: Annotated[list[Scheme], Field(min_length=1, max_length=64)] = Field(
        default_factory=lambda: ["http", "https", "gate-source", "gate-feed"]
    )
    provenance_max_age_s: WholeSeconds | None = None
    provenance_refresh_s: WholeSeconds = 86_400
    provenance_retry_s: WholeSeconds = 900
    cases: Annotated[list[QualityCase], Field(min_length=1, max_length=MAX_CASES)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        fault = fault_in(self)
        if fault is not None:
            raise ValueError(fault)
        return self


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


class QualityCase(StrictModel):
    """An item that an agent at `tier` reads at `at`, for `tool` if one is named."""

    name: Name
    item: CaseItem
    tier: AutonomyTier
    tool: Name | None = None
    expect: QualityExpected
    at: Instant = "2026-01-01T00:00:00.000Z"
