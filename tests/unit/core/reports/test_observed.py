"""Which decisions of the ledger say how enforcing a class would go, and which do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.reports.promotion import ObservedDecisions, find_alike, find_denying_tiers, judge_criteria
from sluice.core.reports.report import Rate
from tests.quality_ledger import FIRST, flag_only
from tests.unit.core.retrieval.quality_scene import MATRIX, NOTE, quality_bundle

if TYPE_CHECKING:
    from sluice.core.quality_bundle.quality_bundle import QualityBundle

ROLLOUT = {NOTE: {"mode": "flag_only", "since": FIRST.strftime("%Y-%m-%dT%H:%M:%S.000Z")}}
MILD = dict.fromkeys(("freshness", "confidence", "provenance"), "downgrade")


def bundle(**changed: Any) -> QualityBundle:
    return quality_bundle(**{"rollout": ROLLOUT, **changed})


def add_tier(tier: str, cell: dict[str, str]) -> dict[str, Any]:
    return {**MATRIX, tier: {NOTE: cell}}


def observe_passes(given: QualityBundle, *under: QualityBundle, tier: str = "bounded") -> ObservedDecisions:
    """Of ten passes and a would-be denial under each of these revisions."""
    found = ObservedDecisions(given, NOTE, find_alike(given, NOTE, under))
    for one in under:
        for outcome in ["pass"] * 10 + ["deny"]:
            event = flag_only(0, outcome, NOTE)
            told = {"quality_bundle_id": one.id, "quality_bundle_hash": one.hash, "autonomy_tier": tier}
            found.count_decision({**event, **told})
    return found


LOOSER = [
    {"min_confidence_by_class": {NOTE: 0.0}},
    {"ttl_by_class": {NOTE: 1e9}},
    {"ttl_by_class": {NOTE: None}},
    {"ttl_by_tool": {"quote": {NOTE: 1e9}}},
    {"provenance_required_by_class": {NOTE: False}},
    {"action_matrix": add_tier("bounded", MILD)},
    {"action_matrix": add_tier("sandbox", MILD)},
    {"provenance_schemes": ["https", "ftp"]},
    {"provenance_max_age_s": 60},
]


@pytest.mark.parametrize("lax", LOOSER)
def test_what_other_tables_let_through_says_nothing_of_these(lax: dict[str, Any]) -> None:
    strict = bundle(revision=2)
    found = observe_passes(strict, strict, bundle(**lax))
    assert (found.false_denies, found.other_tables) == (Rate(1, 11), 11)


ALIKE = [
    {"rationale": "The same once more in other words."},
    {"rollout_window_days": 30},
    {"ttl_by_class": {NOTE: 3600.0}},
    {"action_matrix": {"sandbox": {}, "bounded": MATRIX["bounded"]}},
]


@pytest.mark.parametrize("other", ALIKE)
def test_a_revision_that_changed_something_else_still_counts(other: dict[str, Any]) -> None:
    now = bundle(revision=2)
    found = observe_passes(now, now, bundle(**other))
    assert (found.false_denies, found.other_tables) == (Rate(2, 22), 0)


def test_a_revision_that_nobody_knows_does_not_count() -> None:
    now = bundle(revision=2)
    found = ObservedDecisions(now, NOTE, find_alike(now, NOTE, ()))
    found.count_decision({**flag_only(0, "pass", NOTE), "quality_bundle_id": now.id})
    assert (found.days, found.false_denies, found.other_tables) == (0, Rate(0, 0), 1)


def test_a_tier_at_which_nothing_can_be_denied_does_not_thin_the_rate_out() -> None:
    now = bundle()
    assert find_denying_tiers(now, NOTE) == {"bounded", "high_privilege"}
    at_sandbox = observe_passes(now, now, tier="sandbox")
    assert (at_sandbox.false_denies, at_sandbox.days, at_sandbox.never_denied) == (Rate(0, 0), 0, 11)
    assert observe_passes(now, now, tier="high_privilege").false_denies == Rate(1, 11)


@pytest.mark.parametrize("dimension", ["freshness", "confidence", "provenance"])
def test_one_dimension_that_denies_is_enough_for_a_tier_to_count(dimension: str) -> None:
    matrix = add_tier("bounded", {**MILD, dimension: "deny"})
    assert "bounded" in find_denying_tiers(bundle(action_matrix=matrix), NOTE)
    assert "bounded" not in find_denying_tiers(bundle(action_matrix=add_tier("bounded", MILD)), NOTE)


def test_an_unregistered_scheme_is_denied_at_high_privilege_whatever_the_matrix_says() -> None:
    assert find_denying_tiers(bundle(action_matrix=add_tier("high_privilege", MILD)), NOTE) >= {
        "high_privilege"
    }


def test_what_does_not_count_is_told_with_the_reason() -> None:
    strict = bundle(revision=2)
    found = observe_passes(strict, strict, bundle(min_confidence_by_class={NOTE: 0.0}))
    said = {one.name: one for one in judge_criteria(strict, NOTE, found)}["decisions"]
    assert said.found == "11; left out: 11 under other tables for the class"
    assert said.needed.endswith(
        "under the bundle's present tables for the class, at tiers where it can be denied"
    )
