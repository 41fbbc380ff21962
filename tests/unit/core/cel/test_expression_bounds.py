"""The work of a condition is bounded: in its text when it is loaded, by the sizes when it is evaluated."""

from __future__ import annotations

from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.cel.bounds import measure_pattern, sum_coarsely
from sluice.core.cel.cel_values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS, Values
from sluice.core.cel.language import MAX_WORK, ExpressionError, Language, WorkBudget
from sluice.core.cel.tree import Size

OBJECT = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
LANGUAGE = Language({"p": OBJECT, "now": cel.Type.TIMESTAMP})
CONDITIONS = (
    "p.n > 3",
    "p.s == p.t",
    "p.s.contains(p.t)",
    "p.s.contains('drop')",
    "p.l.all(x, x != 'a')",
    "p.l.all(x, x in p.m)",
    "p.l.filter(x, x > 2).size() > 3",
    "p.l.map(x, x.name) == p.m",
    "p.s.matches('(?i)drop\\\\s+table')",
    "p.l.exists(x, x.matches('[ab]*a[ab]{12}'))",
    "(p.s + p.t + p.s).size() > 3",
    "p.s in ['a', 'b']",
)
COMPILED = {source: LANGUAGE.compile(source, ("BOOL",)) for source in CONDITIONS}
SHOWN = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(),
        "s": st.text(max_size=40) | st.just("x" * 30_000),
        "t": st.text(max_size=40) | st.just("y" * 9_000),
        "l": st.lists(st.integers() | st.text(max_size=5), max_size=MAX_ITEMS),
        "m": st.lists(st.dictionaries(st.text(max_size=3), st.integers(), max_size=3), max_size=9),
    },
)
SIZES = st.builds(
    Size, st.integers(0, MAX_ITEMS), st.integers(0, MAX_ALL_ITEMS), st.integers(0, MAX_ALL_TEXT)
)


@pytest.mark.parametrize(
    "source",
    [
        "p.l.all(x, p.m.exists(y, x == y))",
        "p.l.map(x, p.m.map(y, y)) == []",
        "p.l.filter(x, x > 1).map(y, y * 2) == []",
        "p.l.map(x, x + x) == []",
        "p.l.map(x, [x] + [x]) == []",
        "p.l.all(x, ('a' + string(x)).size() > 1)",
        "p.l.all(x, p.l + p.l == x)",
        "p.s.matches(p.t)",
        "p.s.matches('a' + 'b')",
        "p.s.matches('(')",
        "p.s.matches('\\\\p{L}+')",
        "p.s.matches('(a{1000}){1000}')",
        "now.getDayOfWeek(p.zone) == 0",
        "now.getHours('America/New_York') == 0",
    ],
)
def test_what_cannot_be_bounded_is_refused_when_it_is_loaded(source: str) -> None:
    with pytest.raises(ExpressionError):
        LANGUAGE.compile(source, ("BOOL",))


@pytest.mark.parametrize(
    "source",
    [
        "p.l.all(x, x.price + 1 > 2)",
        "p.l.all(x, double(x.price) + double(x.tax) < 10.0)",
        "p.l.exists(x, x == 1) && p.m.exists(x, x == 2)",
        "p.s + p.t == 'ab'",
        "p.l + p.m == [1]",
        "now.getHours('+05:30') == 0",
        "now.getHours('UTC') == 0",
    ],
)
def test_what_can_be_bounded_is_not(source: str) -> None:
    assert LANGUAGE.compile(source, ("BOOL",)).result == "BOOL"


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("p.a.b == 1 && p['c'].d == 2", {("p", "a", "b"), ("p", "c", "d")}),
        ("p.l[0].name == 'x'", {("p", "l")}),
        ("has(p.a.b)", {("p", "a", "b")}),
        ("p.l.all(x, x.deep == p.m)", {("p", "l"), ("p", "m")}),
        ("p.l.all(p, p.deep == 1)", {("p", "l")}),
        ("p[p.key] == 1", {("p",), ("p", "key")}),
        ("{'a': p.b}.a == [p.c]", {("p", "b"), ("p", "c")}),
    ],
)
def test_what_a_condition_reads_is_known_from_its_text(source: str, reads: set[tuple[str, ...]]) -> None:
    assert set(LANGUAGE.compile(source).reads) == reads


@given(st.sampled_from(CONDITIONS), SIZES, SIZES)
def test_larger_values_never_make_less_work(source: str, one: Size, other: Size) -> None:
    work = LANGUAGE.compile(source).work
    larger = Size(*map(max, one, other))
    assert work.limit_cost(one) <= work.limit_cost(larger)


@given(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=6), SIZES)
def test_the_coarse_bound_is_above_the_sum_of_the_exact_ones(sources: list[str], size: Size) -> None:
    expressions = [LANGUAGE.compile(source) for source in sources]
    shown = [
        one.work.limit_cost(
            size._replace(nodes=size.nodes * one.work.mentions, text=size.text * one.work.mentions)
        )
        for one in expressions
    ]
    assert sum_coarsely(one.work for one in expressions).limit_cost(size) >= sum(shown)


@given(
    st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=6),
    st.sampled_from([0, 10**8, 10**9, MAX_WORK]),
    SHOWN,
)
def test_no_expression_makes_work_beyond_what_was_allowed_for_all(
    sources: list[str], enough: int, shown: dict[str, Any]
) -> None:
    expressions = [COMPILED[source] for source in sources]
    values = Values({"p": shown})
    exact = sum(one.work.limit_cost(values.measure_shown(one.reads)) for one in expressions)
    bound = WorkBudget(expressions, enough).limit_cost(values)
    assert (
        exact <= bound <= max(enough, sum_coarsely(one.work for one in expressions).limit_cost(values.whole))
    )


@pytest.mark.parametrize(
    ("pattern", "bounded"),
    [
        ("(?i)drop\\s+table", True),
        ("^[^@]+@ours[.]example$", True),
        ("(?i)\\b(?:password|secret|token|credential|private key)\\b", True),
        ("^\\d{4}-\\d\\d$", True),
        ("[ab]*a[ab]{12}z", False),
        ("(a|b|c)*a(a|b|c)(a|b|c)(a|b|c)(a|b|c)(a|b|c)(a|b|c)(a|b|c)(a|b|c)z", False),
        ("key.{0,60}secret", False),
    ],
)
def test_a_pattern_whose_automaton_may_grow_with_the_text_counts_as_that(pattern: str, bounded: bool) -> None:
    assert (measure_pattern(pattern, 0, 0).states is not None) is bounded


def test_hostile_sizes_are_over_the_limit_and_usual_ones_far_below_it() -> None:
    hostile = Size(MAX_ITEMS, MAX_ALL_ITEMS, MAX_ALL_TEXT)
    usual = Size(5, 20, 400)
    over = [source for source in CONDITIONS if LANGUAGE.compile(source).work.limit_cost(hostile) > MAX_WORK]
    assert "p.l.all(x, x in p.m)" in over
    assert "p.s.contains(p.t)" in over
    assert "p.l.exists(x, x.matches('[ab]*a[ab]{12}'))" in over
    assert all(LANGUAGE.compile(source).work.limit_cost(usual) < MAX_WORK // 8 for source in CONDITIONS)
