"""A quality bundle's own cases: what must come of an item under it (seed 004, "Testing")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.cases.case_failure import CaseFailure, add_places, describe_decision
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.metadata.moments import parse_time
from sluice.core.metadata.provenance import ProvenanceState
from sluice.core.retrieval.dimensions import (
    FUTURE,
    NO_TIME,
    ItemFacts,
    apply_rollout,
    judge_item,
    read_class,
    read_confidence,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.quality_bundle.quality_case import CaseItem, QualityCase

_MS = 1000


def run_quality_cases(bundle: QualityBundle) -> tuple[CaseFailure, ...]:
    """Every difference between what the cases expect and what the gate does. None: the bundle passes."""
    return add_places(_find_failures(bundle, case) for case in bundle.file.cases)


def _find_failures(bundle: QualityBundle, case: QualityCase) -> Iterator[CaseFailure]:
    facts, expect = _make_facts(case), case.expect
    quality = judge_item(bundle, case.tier, facts)
    outcome, hidden = apply_rollout(bundle, facts.content_class, quality.outcome)
    decision = describe_decision(outcome, None, ", ".join(quality.flags) or None)
    if outcome != expect.outcome:
        yield CaseFailure(case.name, "outcome", expect.outcome, outcome, decision)
    if expect.flags is not None and set(expect.flags) != set(quality.flags):
        yield CaseFailure(case.name, "flags", expect.flags, list(quality.flags), decision)
    shown = hidden or "nothing"
    if expect.would_have_been is not None and expect.would_have_been != shown:
        yield CaseFailure(case.name, "would_have_been", expect.would_have_been, shown, decision)


def _make_facts(case: QualityCase) -> ItemFacts:
    item = case.item
    age_ms, age_problem = _measure_age(item, read_milliseconds(case.at))
    confidence, problem = read_confidence(item.confidence_score)
    state = ProvenanceState(item.provenance, "as the case has it")
    return ItemFacts(
        read_class(item.content_class), age_ms, age_problem, confidence, problem, state, case.tool
    )


def _measure_age(item: CaseItem, now_ms: int) -> tuple[int | None, str | None]:
    if item.freshness_age_seconds is not None:
        age_ms = round(item.freshness_age_seconds * _MS)
    elif item.timestamp is None or item.timestamp == "":
        return None, "missing"
    else:
        at_ms = parse_time(item.timestamp) if isinstance(item.timestamp, str) else None
        if at_ms is None:
            return None, NO_TIME
        age_ms = now_ms - at_ms
    return age_ms, FUTURE if age_ms < 0 else None
