"""What holds for every write: nothing that speaks against one ever raises its trust."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.memory.trust import Facts, route, score
from sluice.core.state.history import History
from sluice.detection.text_inspection import ContentInspection, Kind, Weight
from tests.unit.core.memory.trust_scene import POLICY, SOURCE_TYPES, make_finding

shares = st.floats(0, 1)
findings = st.builds(
    make_finding,
    st.sampled_from([f"pattern-{number}" for number in range(8)]),
    kind=st.sampled_from(get_args(Kind)),
    weight=st.sampled_from(get_args(Weight)),
    framed=st.booleans(),
)
histories = st.builds(
    History, st.none(), st.integers(0, 200) | st.integers(0, 10**9), st.integers(0, 200), st.just(0)
)
writes = st.builds(
    Facts,
    source_type=st.sampled_from(SOURCE_TYPES),
    history=histories,
    mismatch=st.booleans(),
    since_last_ms=st.none() | st.integers(0, 10**6),
    inspection=st.builds(
        ContentInspection,
        st.lists(findings, max_size=6).map(tuple),
        st.integers(0, 2_000_000),
        shares,
        shares,
        st.none() | st.just("too many forms"),
    ),
    extra_findings=st.lists(findings, max_size=2).map(tuple),
    parents=st.lists(st.none() | shares, max_size=3).map(tuple),
    ceiling=st.none() | shares,
    ceiling_by=st.just("llm_analysis"),
    inconclusive=st.lists(st.just("similarity"), max_size=1).map(tuple),
)


def total(facts: Facts, **changes: Any) -> float:
    return score(POLICY, facts._replace(**changes)).total


@given(writes)
def test_every_number_is_a_share_and_the_total_is_the_lowest_of_them(facts: Facts) -> None:
    trust = score(POLICY, facts)
    numbers = [trust.total, trust.uncapped, *trust.dimensions.values(), *(value for value, _ in trust.caps)]
    assert all(0 <= number <= 1 for number in numbers)
    assert trust.total == min([trust.uncapped, *(value for value, _ in trust.caps)])


@given(writes, findings)
def test_another_finding_never_raises_the_total(facts: Facts, another: Any) -> None:
    assert total(facts, extra_findings=(*facts.extra_findings, another)) <= total(facts)


@given(writes, st.randoms(use_true_random=False))
def test_the_order_of_findings_and_parents_does_not_matter(facts: Facts, chance: Any) -> None:
    shuffled = list(facts.inspection.findings)
    parents = list(facts.parents)
    chance.shuffle(shuffled)
    chance.shuffle(parents)
    other = facts._replace(
        inspection=facts.inspection._replace(findings=tuple(shuffled)), parents=tuple(parents)
    )
    assert score(POLICY, other) == score(POLICY, facts)


@given(writes, st.sampled_from(SOURCE_TYPES), st.sampled_from(SOURCE_TYPES))
def test_a_less_reliable_type_never_raises_the_total(facts: Facts, one: str, other: str) -> None:
    better, worse = sorted((one, other), key=SOURCE_TYPES.index)
    assert total(facts, source_type=worse) <= total(facts, source_type=better)


@given(writes, st.integers(1, 10))
def test_another_negative_review_never_raises_the_total(facts: Facts, more: int) -> None:
    worse = replace(facts.history, negative=facts.history.negative + more)
    assert total(facts, history=worse) <= total(facts)


@given(writes)
def test_claiming_another_type_never_raises_the_total(facts: Facts) -> None:
    assert total(facts, mismatch=True) <= total(facts, mismatch=False)


@given(writes, st.none() | shares)
def test_another_parent_never_raises_the_total(facts: Facts, parent: float | None) -> None:
    assert total(facts, parents=(*facts.parents, parent)) <= total(facts)


@given(writes, shares, shares)
def test_a_lower_parent_never_raises_the_total(facts: Facts, one: float, other: float) -> None:
    lower, higher = sorted((one, other))
    assert total(facts, parents=(lower,)) <= total(facts, parents=(higher,))


@given(writes, shares, shares)
def test_a_model_can_only_lower_and_the_lower_it_says_the_lower(
    facts: Facts, one: float, other: float
) -> None:
    lower, higher = sorted((one, other))
    without = total(facts, ceiling=None)
    assert total(facts, ceiling=lower) <= total(facts, ceiling=higher) <= without


@given(writes)
def test_what_could_not_be_judged_is_never_allowed(facts: Facts) -> None:
    trust = score(POLICY, facts._replace(inconclusive=("llm_analysis",)))
    assert route(POLICY, trust) != "allow"


@given(writes)
def test_a_strong_finding_is_never_allowed_whatever_the_source(facts: Facts) -> None:
    found = (*facts.extra_findings, make_finding(weight="strong"))
    assert route(POLICY, score(POLICY, facts._replace(extra_findings=found))) != "allow"


@given(writes)
def test_a_definite_finding_is_always_rejected(facts: Facts) -> None:
    found = (*facts.extra_findings, make_finding(weight="definite"))
    assert route(POLICY, score(POLICY, facts._replace(extra_findings=found))) == "reject"
