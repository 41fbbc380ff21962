"""The linear scan before any parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.detection.disguises.scan import PARSED_CHARS, PARSED_NESTING, exceed_bounds, measure_nesting


def test_a_text_at_the_bound_is_parsed_and_one_past_it_is_not() -> None:
    assert exceed_bounds("a" * PARSED_CHARS) is None
    assert "too long" in (exceed_bounds("a" * (PARSED_CHARS + 1)) or "")
    assert exceed_bounds("(" * PARSED_NESTING) is None
    assert "nested" in (exceed_bounds("(" * (PARSED_NESTING + 1)) or "")


def test_brackets_side_by_side_are_not_nested() -> None:
    assert measure_nesting("()[]{}" * 100) == 1
    assert measure_nesting(")))(") == 1


@given(st.integers(0, 60), st.text("ab ';", max_size=5))
def test_the_scan_never_counts_less_than_there_is(depth: int, inner: str) -> None:
    assert measure_nesting("(" * depth + inner + ")" * depth) == depth
