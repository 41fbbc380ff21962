"""Nothing large reaches an evaluation, and what is kept out is known to be missing."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.core.cel.cel_values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS, MAX_TEXT, Values
from sluice.core.cel.tree import Size

LARGE = st.sampled_from(
    [
        "x" * MAX_TEXT,
        "x" * (MAX_TEXT + 1),
        [0] * MAX_ITEMS,
        [0] * (MAX_ITEMS + 1),
        {str(n): n for n in range(MAX_ITEMS + 1)},
        {"k" * MAX_TEXT: 1},
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | LARGE,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=6),
    max_leaves=40,
)


def nest_map(path: tuple[str, ...], value: Any) -> Any:
    """A value at the end of a path of maps."""
    for step in reversed(path):
        value = {step: value}
    return value


def convert_to_doubles(value: Any) -> Any:
    """The value with each integer beyond int64 as the double that stands for it in CEL."""
    if isinstance(value, dict):
        return {key: convert_to_doubles(one) for key, one in value.items()}
    if isinstance(value, list):
        return [convert_to_doubles(one) for one in value]
    return float(value) if type(value) is int and not -(2**63) <= value < 2**63 else value


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON))
def test_what_is_taken_is_within_every_bound(variables: dict[str, Any]) -> None:
    values = Values(variables)
    sizes = [values.size((name,)) for name in variables]
    assert sum(size.nodes for size in sizes) <= MAX_ALL_ITEMS + len(variables)
    assert sum(size.text for size in sizes) <= MAX_ALL_TEXT
    assert all(size.items <= MAX_ITEMS for size in sizes)
    assert values.whole.nodes >= sum(size.nodes for size in sizes)
    assert values.whole.text >= sum(size.text for size in sizes)


@settings(max_examples=60)
@example({"a": 2**63 + 1, "b": ["x" * (MAX_TEXT + 1), -(2**63) - 1]})
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON))
def test_what_differs_from_the_original_is_hidden_from_whoever_reads_it(variables: dict[str, Any]) -> None:
    values = Values(variables)
    for name, value in variables.items():
        assert values.hides([(name,)]) is not None or values.variables[name] == convert_to_doubles(value)


@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=5).map(tuple), st.integers(1, 5))
def test_a_value_left_out_hides_what_is_above_and_below_it_and_no_more(
    path: tuple[str, ...], length: int
) -> None:
    values = Values({"p": {**nest_map(path, "x" * (MAX_TEXT + 1)), "other": {"y": 1}}})
    assert values.left_out == {("p", *path)}
    assert values.hides([("p", *path)[:length]]) == ("p", *path)
    assert values.hides([("p", *path, "below", "it")]) == ("p", *path)
    assert values.hides([("p", "other", "y"), ("q",)]) is None


def test_the_first_values_take_the_room_and_the_last_are_left_out() -> None:
    part = ["x" * 1000] * 30
    values = Values({"a": part, "b": part, "c": part, "d": part, "e": part, "f": "short"})
    assert values.left_out == {("e",)}
    assert values.variables["f"] == "short"


def test_facts_take_no_room_from_the_action() -> None:
    part = ["x" * 1000] * 100
    with_facts = Values({"a": part}, {"f": part, "g": part})
    assert with_facts.left_out == Values({"a": part}).left_out == set()
    assert with_facts.whole.text == 3 * 100_000


def test_a_wide_and_nested_list_is_cut_off_at_the_bound_of_all_items() -> None:
    values = Values({"a": [[0] * 100 for _ in range(200)]})
    assert values.hides([("a",)]) == ("a",)
    assert values.whole.nodes <= MAX_ALL_ITEMS + 1


def test_sizes_count_entries_values_and_characters() -> None:
    values = Values({"a": {"key": ["xx", {"k": 1}], "n": None}})
    assert values.size(("a",)) == Size(2, 6, 7)
    assert values.size(("a", "key")) == Size(2, 4, 3)
    assert values.size(("a", "absent")) == Size(0, 1, 0)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON))
def test_values_that_need_no_copy_are_seen_as_copies_would_be(variables: dict[str, Any]) -> None:
    seen, copied = Values(variables), Values({**variables, "z": "x" * (MAX_TEXT + 1)})
    assert copied.left_out == seen.left_out | {("z",)}
    assert copied.variables == {**seen.variables, "z": None}
    assert copied.whole == seen.whole._replace(nodes=seen.whole.nodes + 1)
