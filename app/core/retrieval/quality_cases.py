"""A quality bundle's own cases: what must come of an item under it (seed 004, "Testing")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from app.core.case_failure import CaseFailure
from app.core.clock import milliseconds_of
from app.core.retrieval.dimensions import ItemFacts, ProvenanceState, ProvenanceStatus, judge_item
from app.core.retrieval.facts import FUTURE, NO_TIME, class_of, confidence_of
from app.core.retrieval.item_times import time_of
from app.core.retrieval.rollout import under_rollout
from app.core.strict import Instant, StrictModel
from topics.records.retrievals import (  # noqa: TC001 - pydantic reads the annotations
    AutonomyTier,
    QualityFlag,
    QualityOutcome,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.retrieval.quality_bundle import QualityBundle

Name = Annotated[str, Field(min_length=1, max_length=256)]
AgeSeconds = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
_MS = 1000


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


def run_quality_cases(bundle: QualityBundle) -> tuple[CaseFailure, ...]:
    """Every difference between what the cases expect and what the gate does. None: the bundle passes."""
    return tuple(failure for case in bundle.file.cases for failure in _failures(bundle, case))


def _failures(bundle: QualityBundle, case: QualityCase) -> Iterator[CaseFailure]:
    facts, expect = _facts(case), case.expect
    found = judge_item(bundle, case.tier, facts)
    outcome, hidden = under_rollout(bundle, facts.content_class, found.outcome)
    if outcome != expect.outcome:
        yield CaseFailure(case.name, "outcome", expect.outcome, outcome)
    if expect.flags is not None and set(expect.flags) != set(found.flags):
        yield CaseFailure(case.name, "flags", expect.flags, list(found.flags))
    shown = hidden or "nothing"
    if expect.would_have_been is not None and expect.would_have_been != shown:
        yield CaseFailure(case.name, "would_have_been", expect.would_have_been, shown)


def _facts(case: QualityCase) -> ItemFacts:
    item = case.item
    age_ms, age_problem = _age(item, milliseconds_of(case.at))
    confidence, problem = confidence_of(item.confidence_score)
    state = ProvenanceState(item.provenance, "as the case has it")
    return ItemFacts(class_of(item.content_class), age_ms, age_problem, confidence, problem, state, case.tool)


def _age(item: CaseItem, now_ms: int) -> tuple[int | None, str | None]:
    if item.freshness_age_seconds is not None:
        age_ms = round(item.freshness_age_seconds * _MS)
    elif item.timestamp is None or item.timestamp == "":
        return None, "missing"
    else:
        at_ms = time_of(item.timestamp) if isinstance(item.timestamp, str) else None
        if at_ms is None:
            return None, NO_TIME
        age_ms = now_ms - at_ms
    return age_ms, FUTURE if age_ms < 0 else None
