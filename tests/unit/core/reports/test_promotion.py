"""From flag-only to enforce: every criterion can stand alone in the way, and one class goes at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.reports.promotion import ObservedDecisions, describe_criteria, judge_criteria, make_promoted
from tests.quality_ledger import DIGEST, FIRST, decision, flag_only
from tests.unit.core.retrieval.quality_scene import MATRIX, NOTE, quality_bundle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.quality_bundle.quality_bundle import QualityBundle

OTHER = "price"
SINCE = FIRST.strftime("%Y-%m-%dT%H:%M:%S.000Z")
NOW_MS = 1_780_000_000_000
ASKED = {"min_days": 3, "max_false_deny_rate": 0.25, "min_decisions": 8}


def bundle(**changed: Any) -> QualityBundle:
    both = {NOTE: "read_only", OTHER: "financial"}
    fields: dict[str, Any] = {
        "ttl_by_class": dict.fromkeys(both, 3600),
        "min_confidence_by_class": dict.fromkeys(both, 0.5),
        "provenance_required_by_class": dict.fromkeys(both, True),
        "action_matrix": {tier: dict.fromkeys(both, row[NOTE]) for tier, row in MATRIX.items()},
        "rollout": {name: {"mode": "flag_only", "since": SINCE} for name in both},
        "impact_by_class": both,
        "promotion": ASKED,
    }
    return quality_bundle(**{**fields, **changed})


def ledger(
    days: int = 3, passes: int = 6, denies: int = 2, content_class: str = NOTE
) -> list[dict[str, Any]]:
    events = [flag_only(0, "deny", content_class) for _ in range(denies)]
    events += [flag_only(number % days, "pass", content_class) for number in range(passes)]
    return [{**event, "quality_bundle_id": "small.quality"} for event in events]


def unmet(events: Iterable[dict[str, Any]], given: QualityBundle, content_class: str = NOTE) -> list[str]:
    observed = ObservedDecisions(given, content_class, {DIGEST})
    for event in events:
        observed.count_decision(event)
    return [one.name for one in judge_criteria(given, content_class, observed) if not one.met]


def test_a_class_at_exactly_every_bound_may_be_enforced() -> None:
    assert unmet(ledger(), bundle()) == []


@pytest.mark.parametrize(
    ("events", "missing"),
    [
        (ledger(days=2), ["days with decisions"]),
        (ledger(passes=5, denies=2), ["decisions", "false-deny rate"]),
        (ledger(passes=5, denies=1), ["decisions"]),
        (ledger(passes=6, denies=3), ["false-deny rate"]),
        ([], ["days with decisions", "decisions", "false-deny rate"]),
    ],
)
def test_one_short_of_a_bound_is_in_the_way(events: list[dict[str, Any]], missing: list[str]) -> None:
    assert unmet(events, bundle()) == missing


def test_classes_of_lower_impact_go_first() -> None:
    events = ledger(content_class=OTHER)
    assert unmet(events, bundle(), OTHER) == ["classes of lower impact"]
    enforced = {NOTE: {"mode": "enforce", "since": SINCE}, OTHER: {"mode": "flag_only", "since": SINCE}}
    assert unmet(events, bundle(rollout=enforced), OTHER) == []


def test_a_class_whose_impact_nobody_wrote_down_goes_last() -> None:
    assert unmet(ledger(), bundle(impact_by_class={OTHER: "low"})) == ["classes of lower impact"]


def test_an_enforced_class_has_nothing_to_promote() -> None:
    enforced = {name: {"mode": "enforce", "since": SINCE} for name in (NOTE, OTHER)}
    assert "rollout of the class" in unmet(ledger(), bundle(rollout=enforced))


def test_a_matrix_that_lets_through_at_high_privilege_cannot_be_enforced() -> None:
    mild = {**MATRIX["high_privilege"][NOTE], "provenance": "flag"}
    matrix = {
        tier: {NOTE: mild if tier == "high_privilege" else row[NOTE], OTHER: row[NOTE]}
        for tier, row in MATRIX.items()
    }
    assert unmet(ledger(), bundle(action_matrix=matrix)) == ["faults of the bundle with the class enforced"]


@pytest.mark.parametrize(
    "other",
    [
        {"content_class": OTHER},
        {"quality_bundle_id": "another.quality"},
        {"rollout": "enforce"},
        {"timestamp": "2026-02-28T23:59:59.999Z"},
        {"dimensions": [], "flags_set": []},
    ],
)
def test_only_this_class_under_this_bundle_since_flag_only_began_is_observed(other: dict[str, Any]) -> None:
    events = [{**event, **other} for event in ledger()]
    assert unmet(events, bundle()) == ["days with decisions", "decisions", "false-deny rate"]


def test_decisions_of_other_classes_do_not_help() -> None:
    helped = [*ledger(passes=5, denies=1), decision(0, OTHER, quality_bundle_id="small.quality")]
    assert unmet(helped, bundle()) == ["decisions"]


def test_the_next_revision_enforces_one_class_more_and_is_the_same_else() -> None:
    before = bundle()
    observed = ObservedDecisions(before, NOTE, {before.hash})
    after = load_quality_bundle(
        make_promoted(before, NOTE, NOW_MS, describe_criteria(judge_criteria(before, NOTE, observed)))
    )
    assert (after.rollout_of(NOTE), after.rollout_of(OTHER)) == ("enforce", "flag_only")
    assert after.rollout_since_ms[NOTE] == NOW_MS
    changed = {"revision", "rationale", "rollout"}
    assert before.file.model_dump(exclude=changed) == after.file.model_dump(exclude=changed)
    assert after.revision == before.revision + 1
    assert "days with decisions: 0 (needed: at least 3)" in after.file.rationale
