"""What a reviewer is told of two documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.policy.document_changes import find_document_changes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(alphabet="ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [("$.b", 2, 3)]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3, 4]}}, [("$.a.b[1]", 2, 3), ("$.a.b[2]", None, 4)]),
        ({"a": 1}, {"b": {"c": 1}}, [("$.a", 1, None), ("$.b", None, {"c": 1})]),
        ({"a": 1}, {"a": True}, [("$.a", 1, True)]),
        ({"a": {}}, {"a": []}, [("$.a", {}, [])]),
    ],
)
def test_every_field_that_differs_is_told_once(
    before: dict[str, Any], after: dict[str, Any], told: list[tuple[str, Any, Any]]
) -> None:
    assert [tuple(one) for one in find_document_changes(before, after)] == told


def test_a_named_object_put_in_between_changes_no_other() -> None:
    before = {"rules": [{"id": "r1", "n": 1}, {"id": "r2", "n": 1}]}
    after = {"rules": [{"id": "r1", "n": 1}, {"id": "new"}, {"id": "r2", "n": 2}]}
    assert [one.path for one in find_document_changes(before, after)] == ["$.rules[new]", "$.rules[r2].n"]


@given(JSON, JSON)
def test_only_equal_documents_have_no_change(before: Any, after: Any) -> None:
    assert find_document_changes(before, before) == ()
    assert (find_document_changes(before, after) == ()) == (sort_form(before) == sort_form(after))


def sort_form(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{sort_form(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(sort_form, value)) + "]"
    return repr(value)
