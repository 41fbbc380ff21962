"""The trust score against figures worked by hand from seed 003 and product.md's formulas."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.foundation.canonical import canonical
from sluice.core.memory.trust import score
from tests.unit.core.memory.trust_scene import POLICY, facts, history, inspection, make_finding


def dimension(name: str, *found: Any, **fields: Any) -> float:
    return score(POLICY, facts(*found, **fields)).dimensions[name]


@pytest.mark.parametrize(
    ("source_type", "total"),
    [
        # .35 * 1 + .15 * .8 + .25 * .8 = .67 for everybody, and .25 of the base
        ("system", 0.92),  # .25 * 1.0 = .25
        ("agent", 0.87),  # .25 * .8 = .20
        ("user", 0.845),  # .25 * .7 = .175
        ("plugin", 0.82),  # .25 * .6 = .15
        ("external", 0.77),  # .25 * .4 = .10
    ],
)
def test_a_fresh_source_with_harmless_content(source_type: str, total: float) -> None:
    trust = score(POLICY, facts(source_type=source_type))
    assert (trust.total, trust.uncapped, trust.caps) == (total, total, ())


@pytest.mark.parametrize(
    ("source_type", "positive", "negative", "expected"),
    [
        ("user", 2, 0, 0.7),  # two reviews say nothing
        ("user", 3, 0, 0.703297),  # h = 5/7, w = 3/13: .164835 + .7 * 10/13 = .538462
        ("user", 0, 3, 0.604396),  # h = 2/7, w = 3/13: .065934 + .538462
        ("user", 6, 4, 0.635714),  # h = 8/14, w = .5: .285714 + .35
        ("external", 40, 0, 0.843636),  # h = 42/44, w = .8 (40/50): .763636 + .4 * .2
        ("system", 0, 40, 0.236364),  # h = 2/44, w = .8: .036364 + .2
        ("agent", 50, 50, 0.56),  # h = 52/104 = .5, w = .8 (.909 is cut): .4 + .16
        ("agent", 300, 100, 0.752308),  # counts as 75 and 25 of 100: h = 77/104, w = .8: .592308 + .16
        ("external", 2, 2, 0.4),  # h = .5, w = 4/14 gives .428571: too few positive reviews to rise by
        ("external", 0, 3, 0.373626),  # h = 2/7, w = 3/13: .065934 + .4 * 10/13 = .307692
    ],
)
def test_reviews_move_a_source_off_its_base(
    source_type: str, positive: int, negative: int, expected: float
) -> None:
    reviewed = {"source_type": source_type, "history": history(positive, negative)}
    assert dimension("sourceReliability", **reviewed) == pytest.approx(expected, abs=1e-6)


def test_claiming_another_type_costs_a_fifth() -> None:
    assert dimension("sourceReliability", mismatch=True) == 0.5
    assert dimension("sourceReliability", mismatch=True, source_type="external") == 0.2


@pytest.mark.parametrize(
    ("kind", "hits", "expected"),
    [
        ("instruction_override", 1, 0.6),  # 1 - (.3 + .1)
        ("instruction_override", 2, 0.5),  # 1 - (.3 + .2)
        ("exfiltration", 3, 0.4),  # 1 - (.3 + .3)
        ("tool_smuggling", 4, 0.4),  # at most .6
        ("memory_poisoning", 1, 0.8),  # 1 - (.15 + .05)
        ("persistence", 5, 0.6),  # 1 - (.15 + .25)
        ("disguise", 6, 0.6),  # at most .4
        ("goal_change", 2, 1),  # of the alignment alone
    ],
)
def test_hits_cost_consistency(kind: str, hits: int, expected: float) -> None:
    found = [make_finding(f"pattern-{number}", kind=kind) for number in range(hits)]
    assert dimension("contentConsistency", *found) == expected


def test_one_pattern_found_in_two_places_is_one_hit() -> None:
    assert (
        dimension("contentConsistency", make_finding(), make_finding(form="base64", start=40, end=48)) == 0.6
    )


def test_injection_and_manipulation_add_up_to_nothing_left() -> None:
    # .6 and .4 at most, and never below 0
    found = [make_finding(f"a{one}") for one in range(9)]
    found += [make_finding(f"b{one}", kind="persistence") for one in range(9)]
    assert dimension("contentConsistency", *found, inspection=inspection(*found, special_share=0.9)) == 0


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"removed_share": 0.1}, 1),
        ({"removed_share": 0.11}, 0.85),
        ({"characters": 10_000}, 1),
        ({"characters": 10_001}, 0.9),
        ({"special_share": 0.3}, 1),
        ({"special_share": 0.31}, 0.9),
        ({"removed_share": 1.0, "characters": 10_001, "special_share": 1.0}, 0.65),
    ],
)
def test_the_form_of_the_content_costs_consistency(form: dict[str, Any], expected: float) -> None:
    assert dimension("contentConsistency", inspection=inspection(**form)) == expected


@pytest.mark.parametrize(("since_last_ms", "expected"), [(None, 0.8), (101, 0.8), (100, 0.6), (0, 0.6)])
def test_a_write_right_after_the_last_costs_coherence(since_last_ms: int | None, expected: float) -> None:
    assert dimension("temporalCoherence", since_last_ms=since_last_ms) == expected


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("identity_change",), 0.5),
        (("identity_change", "identity_change"), 0.5),
        (("goal_change",), 0.7),
        (("goal_change", "identity_change"), 0.4),
        (("instruction_override",), 0.8),
    ],
)
def test_another_identity_or_goal_costs_alignment(kinds: tuple[str, ...], expected: float) -> None:
    found = [make_finding(f"p{number}", kind=kind) for number, kind in enumerate(kinds)]
    assert dimension("instructionAlignment", *found) == expected


def test_all_at_once_for_an_external_source() -> None:
    # weighted: .25 of .4 - .2, .35 of 1 - .4 - .2, .15 of .6, .25 of .8 - .3
    # which is .05 + .14 + .09 + .125
    found = (make_finding(), make_finding("b", kind="persistence"), make_finding("c", kind="identity_change"))
    trust = score(POLICY, facts(*found, source_type="external", mismatch=True, since_last_ms=5))
    assert trust.uncapped == 0.405


def test_what_is_quoted_reported_or_taught_costs_nothing() -> None:
    quoted = [make_finding(f"q{number}", framed=True) for number in range(5)]
    assert score(POLICY, facts(*quoted)) == score(POLICY, facts())


def test_what_the_encoder_found_counts_like_what_the_patterns_found() -> None:
    extra = score(POLICY, facts(extra_findings=(make_finding(weight="strong"),)))
    assert extra == score(POLICY, facts(make_finding(weight="strong")))


def test_whole_numbers_are_written_as_the_ledger_writes_them() -> None:
    trust = score(POLICY, facts(ceiling=1.0, ceiling_by="llm_analysis"))
    assert type(trust.dimensions["contentConsistency"]) is int
    assert trust.caps == ((1, "llm_analysis"),)
    assert canonical(trust.dimensions) == (
        b'{"contentConsistency":1,"instructionAlignment":0.8,"sourceReliability":0.7,"temporalCoherence":0.8}'
    )
