"""The written form of a quality bundle (seed 004, "Deployment"; product.md).

Every table is by content class. `find_bundle_fault` checks the conditions that join several tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.strict import (
    LONGEST_WAIT_MS,
    MAX_CASES,
    Installations,
    Instant,
    Name,
    StrictModel,
)
from sluice.core.metadata.write_quality import ClassName  # noqa: TC001 - pydantic reads the annotations
from sluice.core.quality_bundle.class_relaxations import ByClass, find_class_relaxations
from sluice.core.quality_bundle.content_settings import ContentByTier, ContentJudge, Share
from sluice.core.quality_bundle.lookup import Lookup, Tables
from sluice.core.quality_bundle.quality_case import QualityCase, expects_stricter
from sluice.core.quality_bundle.severity import Impact  # noqa: TC001 - the same
from sluice_topics.records.retrievals import (  # noqa: TC001 - the same
    AutonomyTier,
    Dimension,
    QualityOutcome,
)
from sluice_topics.relaxations import (
    ComparedBy,
    Members,
    Neutral,
    PartOf,
    Relaxation,
    StricterWhen,
    Unordered,
    compare_cases,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator


def make_tables(file: QualityBundleFile) -> Tables:
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


def find_table_relaxations(before: QualityBundleFile, after: QualityBundleFile) -> Iterator[Relaxation]:
    """What is less strict in the tables by class."""
    return find_class_relaxations(_group_by_class(before), _group_by_class(after))


def _group_by_class(file: QualityBundleFile) -> ByClass:
    return ByClass(
        Lookup(make_tables(file)),
        {name: (rollout.mode, rollout.since) for name, rollout in file.rollout.items()},
        file.impact_by_class,
        {name: access.tenants for name, access in file.access.items() if access.tenants is not None},
    )


ENFORCED: dict[AutonomyTier, tuple[Dimension, ...]] = {
    "high_privilege": ("freshness", "confidence", "provenance"),
    "bounded": ("freshness", "confidence"),
}
"""Seed 004, "Interaction with the autonomy tier": sandbox may be flag-only, bounded for provenance alone."""
LETS_THROUGH = ("pass", "flag")


def find_bundle_fault(file: QualityBundleFile) -> str | None:
    """The first condition that does not hold, None if all hold."""
    return next(
        (fault for faults in (_find_gaps(file), _find_holes(file), _find_strays(file)) for fault in faults),
        None,
    )


def _find_gaps(file: QualityBundleFile) -> Iterator[str]:
    complete: dict[str, Container[str]] = {
        "ttl_by_class": file.ttl_by_class,
        "min_confidence_by_class": file.min_confidence_by_class,
        "provenance_required_by_class": file.provenance_required_by_class,
        "rollout": file.rollout,
    }
    for name in sorted(make_tables(file).classes()):
        for table, by_class in complete.items():
            if name not in by_class:
                yield f"{table} lacks the class {name}"


def _find_holes(file: QualityBundleFile) -> Iterator[str]:
    tables = make_tables(file)
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


def _find_strays(file: QualityBundleFile) -> Iterator[str]:
    names = [case.name for case in file.cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two cases are called {name}"


Seconds = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
"""Up to 30 000 years: no timestamp is older."""
WholeSeconds = Annotated[int, Field(ge=0, le=LONGEST_WAIT_MS // 1000)]
Days = Annotated[int, Field(ge=1, le=3650)]
RolloutMode = Literal["flag_only", "enforce"]
Reason = Annotated[str, Field(min_length=10, max_length=4096)]
Scheme = Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]{0,31}$")]
MAX_CLASSES = 256


class Rollout(StrictModel):
    """Whether a class's outcomes are enforced, and since when; not before 1970, where the count of times
    begins."""

    mode: Annotated[RolloutMode, PartOf("rollout")]
    since: Annotated[Instant, PartOf("rollout")]

    @field_validator("since")
    @classmethod
    def _check_counted(cls, value: str) -> str:
        if read_milliseconds(value) < 0:
            raise ValueError("before 1970")
        return value


class Promotion(StrictModel):
    """The conditions before a class in flag-only is enforced: the number of days with decisions since its
    rollout began, the number of decisions, and the highest share of them that would have been denied."""

    min_days: Annotated[
        int,
        Field(ge=1, le=3650),
        StricterWhen("higher", "{new} days of decisions are enough to promote, not {old}"),
    ] = 14
    max_false_deny_rate: Annotated[
        Share, StricterWhen("lower", "the false-deny rate may be {new}, not {old} to promote")
    ] = 0.02
    min_decisions: Annotated[
        int,
        Field(ge=1, le=2**53 - 1),
        StricterWhen("higher", "{new} decisions are enough to promote, not {old}"),
    ] = 100


class Access(StrictModel):
    """The tenants that may read a class; null: every tenant."""

    tenants: Annotated[list[Name] | None, Field(max_length=4096), PartOf("access")]


def _describe_seconds(seconds: int | None) -> str:
    return "for ever" if seconds is None else f"for {seconds} s"


BY_CLASS = ComparedBy(find_table_relaxations)


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

    id: Annotated[Name, Neutral("names the bundle")]
    revision: Annotated[int, Field(ge=1, le=2**53 - 1), Neutral("a newer one counts")]
    installations: Annotated[Installations | None, Neutral("says where it counts")] = None
    description: Annotated[str, Neutral("for people")]
    rationale: Annotated[Reason, Neutral("for people")]
    ttl_by_class: Annotated[dict[ClassName, Seconds | None], BY_CLASS]
    ttl_by_tool: Annotated[dict[Name, dict[ClassName, Seconds | None]], BY_CLASS] = Field(
        default_factory=dict
    )
    min_confidence_by_class: Annotated[dict[ClassName, Share], BY_CLASS]
    provenance_required_by_class: Annotated[dict[ClassName, bool], BY_CLASS]
    default_by_class: Annotated[dict[ClassName, QualityOutcome], BY_CLASS] = Field(default_factory=dict)
    action_matrix: Annotated[dict[AutonomyTier, dict[ClassName, dict[Dimension, QualityOutcome]]], BY_CLASS]
    rollout: Annotated[dict[ClassName, Rollout], Field(min_length=1, max_length=MAX_CLASSES), BY_CLASS]
    rollout_window_days: Annotated[
        Days, StricterWhen("lower", "flag-only may last {new} days without an alarm, not {old}")
    ] = 14
    alarm_recipient: Annotated[
        str, Field(min_length=1, max_length=1024), Unordered("alarms go to {new}, no longer to {old}")
    ]
    promotion: Promotion = Promotion()
    impact_by_class: Annotated[dict[ClassName, Impact], BY_CLASS] = Field(default_factory=dict)
    high_impact_categories: Annotated[
        list[Name], Members("more", "a deny for {member} no longer opens an escalation", fold=str.casefold)
    ] = Field(default_factory=list)
    escalation_ttl_ms: Annotated[
        int,
        Field(ge=1, le=LONGEST_WAIT_MS),
        StricterWhen("lower", "an escalation can be answered for {new} ms, not for {old} ms"),
    ]
    access: Annotated[dict[ClassName, Access], BY_CLASS] = Field(default_factory=dict)
    content_actions: ContentByTier = ContentByTier()
    content_judge: ContentJudge = ContentJudge()
    provenance_schemes: Annotated[
        list[Scheme],
        Field(min_length=1, max_length=64),
        Members("fewer", "references may have the scheme {member}"),
    ] = Field(default_factory=lambda: ["http", "https", "gate-source", "gate-feed"])
    provenance_max_age_s: Annotated[
        WholeSeconds | None,
        StricterWhen("lower", "a recorded resolution counts {new}, not {old}", shows=_describe_seconds),
    ] = None
    provenance_refresh_s: Annotated[
        WholeSeconds, StricterWhen("lower", "references are resolved again after {new} s, not after {old} s")
    ] = 86_400
    provenance_retry_s: Annotated[
        WholeSeconds, StricterWhen("lower", "failed references are resolved again after {new} s, not {old} s")
    ] = 900
    cases: Annotated[
        list[QualityCase],
        Field(min_length=1, max_length=MAX_CASES),
        compare_cases(expects_stricter),
    ]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        fault = find_bundle_fault(self)
        if fault is not None:
            raise ValueError(fault)
        return self
