"""A quality bundle is loaded whole or refused with the place of what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.core.cases.quality_cases import run_quality_cases
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.errors import BundleError
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from tests.unit.core.retrieval.quality_scene import (
    MATRIX,
    NOTE,
    SINCE,
    flag_only,
    quality_bundle,
    quality_document,
)

SHIPPED = Path(__file__).parents[4] / "config" / "quality" / "default.json"
ENFORCED = {NOTE: {"mode": "enforce", "since": SINCE}}


def refusal(**changed: Any) -> str:
    with pytest.raises(BundleError) as refused:
        quality_bundle(**changed)
    return str(refused.value)


def matrix(tier: str, dimension: str, outcome: str) -> dict[str, Any]:
    """The scene's, with one entry changed."""
    by_dimension = {**MATRIX[tier][NOTE], dimension: outcome}
    return {**MATRIX, tier: {NOTE: by_dimension}}


def test_the_shipped_bundle_has_the_seeds_classes_enforced_and_passes_its_own_cases() -> None:
    bundle = load_quality_bundle(SHIPPED.read_bytes())
    assert bundle.id == "sluice.quality"
    assert bundle.file.ttl_by_class == {
        "legal_text": 31_536_000,
        "product_pricing": 86_400,
        "internal_policy": 7_776_000,
        "public_reference": 2_592_000,
    }
    assert {bundle.rollout_of(name) for name in bundle.lookup.classes} == {"enforce"}
    assert run_quality_cases(bundle) == ()


def test_the_shipped_cases_try_each_dimension_of_each_class_at_each_tier_and_what_passes() -> None:
    cases = load_quality_bundle(SHIPPED.read_bytes()).file.cases
    tried = {
        (case.item.content_class, case.tier, flag)
        for case in cases
        for flag in (*(case.expect.flags or ()), *(() if case.expect.flags else ("none",)))
    }
    for name in ("legal_text", "product_pricing", "internal_policy", "public_reference"):
        assert (name, "high_privilege", "none") in tried
        for tier in ("sandbox", "bounded", "high_privilege"):
            flags = {flag for one, at, flag in tried if (one, at) == (name, tier)}
            assert flags >= {"stale", "low_confidence", "provenance_missing", "provenance_unverified"}


def test_its_hash_is_over_the_canonical_form_of_the_file() -> None:
    document = quality_document()
    spaced = json.dumps(dict(reversed(document.items())), indent=3).encode()
    assert load_quality_bundle(spaced).hash == digest(document)


@pytest.mark.parametrize("table", ["ttl_by_class", "min_confidence_by_class", "provenance_required_by_class"])
def test_a_class_that_a_table_lacks_is_named(table: str) -> None:
    assert refusal(**{table: {}}) == f"$: Value error, {table} lacks the class note"


@pytest.mark.parametrize(
    "more",
    [
        {"default_by_class": {"memo": "deny"}},
        {"ttl_by_tool": {"trader": {"memo": 5}}},
        {"access": {"memo": {"tenants": None}}},
        {"impact_by_class": {"memo": "low"}},
        {"rollout": {**ENFORCED, "memo": {"mode": "enforce", "since": SINCE}}},
        {"action_matrix": {**MATRIX, "sandbox": {"memo": {}}}},
    ],
)
def test_a_class_that_only_one_table_names_is_refused_whichever_it_is(more: dict[str, Any]) -> None:
    assert "ttl_by_class lacks the class memo" in refusal(**more)


def test_a_class_without_a_rollout_is_refused() -> None:
    assert "rollout lacks the class note" in refusal(
        rollout=flag_only("other"), ttl_by_class={NOTE: 1, "other": 1}
    )


@pytest.mark.parametrize("outcome", ["pass", "flag"])
@pytest.mark.parametrize(
    ("tier", "dimension"),
    [
        ("high_privilege", "freshness"),
        ("high_privilege", "confidence"),
        ("high_privilege", "provenance"),
        ("bounded", "freshness"),
        ("bounded", "confidence"),
    ],
)
def test_outside_flag_only_nothing_that_fails_may_get_through(
    tier: str, dimension: str, outcome: str
) -> None:
    holed = matrix(tier, dimension, outcome)
    assert f"action_matrix.{tier}.note.{dimension} comes to {outcome}" in refusal(action_matrix=holed)
    assert quality_bundle(action_matrix=holed, rollout=flag_only(NOTE)).rollout_of(NOTE) == "flag_only"


@pytest.mark.parametrize("outcome", ["pass", "flag"])
def test_bounded_may_let_provenance_through_and_sandbox_everything(outcome: str) -> None:
    assert quality_bundle(action_matrix=matrix("bounded", "provenance", outcome))
    assert quality_bundle(action_matrix=matrix("sandbox", "freshness", outcome))


def test_what_the_matrix_does_not_say_counts_as_it_comes_out() -> None:
    sandbox = {"sandbox": MATRIX["sandbox"]}
    assert "action_matrix.bounded.note.freshness comes to flag" in refusal(action_matrix=sandbox)
    assert "high_privilege.note.freshness comes to flag" in refusal(
        action_matrix=sandbox, default_by_class={NOTE: "flag"}
    )
    assert quality_bundle(action_matrix=sandbox, default_by_class={NOTE: "downgrade"})


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"ttl_by_class": {NOTE: 0}}, "$.ttl_by_class.note"),
        ({"ttl_by_class": {NOTE: "60"}}, "$.ttl_by_class.note"),
        ({"min_confidence_by_class": {NOTE: 1.01}}, "$.min_confidence_by_class.note"),
        ({"provenance_required_by_class": {NOTE: 1}}, "$.provenance_required_by_class.note"),
        (
            {"action_matrix": matrix("sandbox", "freshness", "block")},
            "$.action_matrix.sandbox.note.freshness",
        ),
        ({"action_matrix": matrix("sandbox", "age", "deny")}, "$.action_matrix.sandbox.note.age"),
        ({"rationale": "too short"}, "$.rationale"),
        ({"alarm_recipient": ""}, "$.alarm_recipient"),
        (
            {"rollout": {NOTE: {"mode": "enforce", "since": "2026-02-30T00:00:00.000Z"}}},
            "$.rollout.note.since",
        ),
        *(
            ({"rollout": {NOTE: {"mode": "flag_only", "since": since}}}, "$.rollout.note.since")
            for since in ("0001-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z")
        ),
        ({"revision": 0}, "$.revision"),
        ({"threshold": 1}, "$.threshold"),
        (
            {"content_actions": {"sandbox": {"strong": "deny", "definite": "flag"}}},
            "$.content_actions.sandbox",
        ),
        ({"content_judge": {"definite_below": 0.8}}, "$.content_judge"),
        ({"provenance_schemes": ["HTTP"]}, "$.provenance_schemes[0]"),
        ({"cases": []}, "$.cases"),
        ({"cases": [{"name": "x", "item": {}, "tier": "bounded"}]}, "$.cases[0].expect"),
    ],
)
def test_a_value_that_is_none_is_refused_with_its_place(changed: dict[str, Any], place: str) -> None:
    assert refusal(**changed).startswith(place)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"id": 1, "id": 2}', b'{"cases": [1e999]}', b"\xff"])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(BundleError, match=r"^\$"):
        load_quality_bundle(raw)


def test_a_number_that_no_ledger_could_carry_is_refused() -> None:
    case = {
        "name": "too large a score",
        "item": {"confidence_score": 2**60},
        "tier": "bounded",
        "expect": {"outcome": "flag"},
    }
    with pytest.raises(BundleError):
        quality_bundle(cases=[case])


def test_a_class_with_readers_is_closed_to_all_others() -> None:
    bundle = quality_bundle(access={NOTE: {"tenants": ["acme"]}})
    assert (bundle.opens(NOTE, "acme"), bundle.opens(NOTE, "globex")) == (True, False)
    assert bundle.opens("gossip", "globex")
    assert bundle.opens(None, "globex")
    assert quality_bundle(access={NOTE: {"tenants": None}}).opens(NOTE, "globex")
    assert not quality_bundle(access={NOTE: {"tenants": []}}).opens(NOTE, "acme")


def test_a_class_whose_impact_nobody_wrote_down_is_the_last_to_be_promoted() -> None:
    bundle = quality_bundle(impact_by_class={NOTE: "low"})
    assert bundle.impact_rank(NOTE) == 1
    assert quality_bundle().impact_rank(NOTE) == 5
