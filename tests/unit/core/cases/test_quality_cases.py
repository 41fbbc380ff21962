"""A quality bundle's own cases are run against its own gate."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.cases.quality_cases import run_quality_cases
from tests.unit.core.retrieval.quality_scene import NOTE, flag_only, quality_bundle

SOUND = {
    "content_class": NOTE,
    "freshness_age_seconds": 60,
    "confidence_score": 0.5,
    "provenance": "verified",
}


def failures(
    item: dict[str, Any], tier: str = "bounded", *, tool: str | None = None, **expect: Any
) -> list[str]:
    """What a bundle with this one case says of it."""
    bundle_changes = {name: expect.pop(name) for name in ("rollout", "ttl_by_tool") if name in expect}
    case = {"name": "the case", "item": item, "tier": tier, "tool": tool, "expect": expect}
    return [str(one) for one in run_quality_cases(quality_bundle(cases=[case], **bundle_changes))]


def test_a_case_that_comes_out_as_expected_says_nothing() -> None:
    assert failures(SOUND, outcome="pass", flags=[]) == []
    assert failures({}, outcome="deny") == []


def test_each_field_that_differs_is_said() -> None:
    stale = {**SOUND, "freshness_age_seconds": 3601}
    assert failures(stale, outcome="flag", flags=["low_confidence"], would_have_been="deny") == [
        'the case: outcome: expected "flag", got "deny" (deny: stale)',
        'the case: flags: expected ["low_confidence"], got ["stale"] (deny: stale)',
        'the case: would_have_been: expected "deny", got "nothing" (deny: stale)',
    ]


def test_flag_only_is_judged_as_it_will_be() -> None:
    stale = {**SOUND, "freshness_age_seconds": 3601}
    assert failures(stale, outcome="flag", would_have_been="deny", rollout=flag_only(NOTE)) == []
    assert failures(SOUND, outcome="pass", would_have_been="pass", rollout=flag_only(NOTE)) == []


@pytest.mark.parametrize(
    ("changed", "flags"),
    [
        ({"freshness_age_seconds": -1}, ["stale"]),
        ({"freshness_age_seconds": None}, ["stale"]),
        ({"freshness_age_seconds": None, "timestamp": ""}, ["stale"]),
        ({"freshness_age_seconds": None, "timestamp": 5}, ["stale"]),
        ({"freshness_age_seconds": None, "timestamp": "2026-01-01T00:00:00.001Z"}, ["stale"]),
        ({"freshness_age_seconds": None, "timestamp": "2026-01-01T00:00:00Z"}, []),
        ({"confidence_score": "0.9"}, ["low_confidence"]),
        ({"provenance": "unregistered_scheme"}, ["provenance_unverified"]),
        ({"content_class": ["note"]}, ["stale", "low_confidence", "provenance_unverified"]),
    ],
)
def test_an_item_of_a_case_may_bring_whatever_an_item_may(changed: dict[str, Any], flags: list[str]) -> None:
    outcome = "pass" if not flags else "deny"
    assert failures({**SOUND, **changed}, "high_privilege", outcome=outcome, flags=flags) == []


def test_a_tools_own_time_to_live_counts_for_that_tool_alone() -> None:
    by_tool = {"trader": {NOTE: 30}}
    assert failures(SOUND, tool="trader", outcome="deny", ttl_by_tool=by_tool) == []
    assert failures(SOUND, tool="reader", outcome="pass", ttl_by_tool=by_tool) == []
