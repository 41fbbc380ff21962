"""Where a score leads, what caps it, and what the decision names as its reason."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.memory.trust import Trust, explain, route, score
from tests.unit.core.memory.trust_scene import POLICY, SOURCE_TYPES, facts, history, inspection, make_finding


def led(*found: Any, **fields: Any) -> tuple[str, str]:
    trust = score(POLICY, facts(*found, **fields))
    return route(POLICY, trust), explain(POLICY, trust)


@pytest.mark.parametrize(
    ("total", "action"),
    [
        (1, "allow"),
        (0.7, "allow"),
        (0.699999, "quarantine"),
        (0.3, "quarantine"),
        (0.299999, "reject"),
        (0, "reject"),
    ],
)
def test_the_thresholds_are_the_seeds(total: float, action: str) -> None:
    assert route(POLICY, Trust(total, total, {}, ())) == action


def test_an_ordinary_memory_of_any_source_is_allowed() -> None:
    assert {led(source_type=one) for one in SOURCE_TYPES} == {("allow", "trusted")}


def test_the_references_single_injection_of_a_user_is_no_longer_allowed() -> None:
    # .25 * .7 + .35 * (1 - .4) + .15 * .8 + .25 * .8 = .175 + .21 + .12 + .2 = .705, and .7 is enough
    trust = score(POLICY, facts(make_finding(weight="strong")))
    assert (trust.uncapped, trust.total) == (0.705, 0.6)
    assert led(make_finding(weight="strong")) == ("quarantine", "finding: ignore_previous")


def test_a_fresh_source_can_be_rejected_for_its_content() -> None:
    # The score alone leaves a fresh user .705 for a single hit: far above .3
    for source_type in SOURCE_TYPES:
        assert led(make_finding(weight="definite"), source_type=source_type) == (
            "reject",
            "finding: ignore_previous",
        )


def test_no_history_outweighs_a_finding() -> None:
    praised = {"source_type": "system", "history": history(positive=10_000)}
    assert led(make_finding(weight="strong"), **praised)[0] == "quarantine"
    assert led(make_finding(weight="definite"), **praised)[0] == "reject"


def test_a_framed_finding_caps_nothing_whatever_its_pattern_weighs() -> None:
    assert led(make_finding(weight="definite", framed=True)) == ("allow", "trusted")


def test_the_lowest_cap_decides_and_every_cap_is_listed() -> None:
    trust = score(
        POLICY,
        facts(
            make_finding("told", weight="strong"),
            make_finding("ordered", weight="definite"),
            parents=(0.5, None, 0.9),
            ceiling=0.4,
            ceiling_by="llm_analysis",
            inconclusive=("similarity",),
        ),
    )
    assert trust.total == 0.2
    assert trust.caps == (
        (0.2, "finding: ordered"),
        (0.4, "llm_analysis"),
        (0.5, "parent_trust"),
        (0.6, "finding: told"),
        (0.65, "inconclusive: similarity"),
        (0.65, "unknown_parent"),
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"parents": (0.9, 0.8)}, ("allow", "trusted")),
        ({"parents": (0.9, 0.31)}, ("quarantine", "parent_trust")),
        ({"parents": (0.9, 0.29)}, ("reject", "parent_trust")),
        ({"parents": (0.9, None)}, ("quarantine", "unknown_parent")),
        ({"ceiling": 0.75, "ceiling_by": "llm_analysis"}, ("allow", "trusted")),
        ({"ceiling": 0.1, "ceiling_by": "llm_analysis"}, ("reject", "llm_analysis")),
        ({"inconclusive": ("llm_analysis",)}, ("quarantine", "inconclusive: llm_analysis")),
        (
            {"inspection": inspection(inconclusive="too many forms")},
            ("quarantine", "inconclusive: too many forms"),
        ),
        ({"inspection": inspection(characters=1_000_000)}, ("allow", "trusted")),
        ({"inspection": inspection(characters=1_000_001)}, ("reject", "too_long: over 1000000 characters")),
    ],
)
def test_what_else_caps_a_total(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    assert led(source_type="system", **fields) == expected


def test_a_parent_that_nobody_scored_is_an_unknown_one() -> None:
    # -1: allowed while the gate was switched off
    assert led(parents=(-1,)) == led(parents=(None,)) == ("quarantine", "unknown_parent")


def test_a_cap_above_the_total_changes_nothing() -> None:
    trust = score(POLICY, facts(make_finding("b"), make_finding("c"), ceiling=0.9, ceiling_by="llm_analysis"))
    assert trust.total == trust.uncapped == 0.67  # .705 less .35 * .1 for the second hit


def test_without_a_cap_the_reason_is_the_dimension_that_cost_most() -> None:
    # a fresh external source loses .15 by itself, one hit .14, two hits .175
    assert led(make_finding(), source_type="external") == ("quarantine", "low_trust: sourceReliability")
    assert led(make_finding(), make_finding("b"), source_type="external") == (
        "quarantine",
        "low_trust: contentConsistency",
    )


def test_a_cap_is_no_reason_for_what_it_alone_would_not_do() -> None:
    # .25 * 0 + .35 * 0 + .15 * .6 + .25 * .4 = .19: rejected, though a strong finding would quarantine
    found = [make_finding(f"a{number}", weight="strong") for number in range(6)]
    found += [make_finding(f"b{number}", kind="persistence") for number in range(6)]
    found += [make_finding("c", kind="identity_change"), make_finding("d", kind="goal_change")]
    hopeless = {"source_type": "external", "mismatch": True, "since_last_ms": 1, "history": history(0, 100)}
    trust = score(POLICY, facts(*found, **hopeless))
    assert trust.total < 0.3
    assert led(*found, **hopeless) == ("reject", "low_trust: contentConsistency")
