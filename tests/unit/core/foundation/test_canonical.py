"""The fast canonical form is RFC 8785, byte for byte."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.core.foundation.canonical import (
    canonical,
    digest,
    digest_alike,
    encode_ordered,
    is_odd_float,
    wire_int,
    wire_safe,
    write_alike,
)
from sluice.core.foundation.errors import CanonicalError

SAFE = 2**53 - 1
VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "rfc8785.jsonl").read_text().splitlines()
]
KEYS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["😀", "\ufb33", "é", "a", "\x7f"])
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1e16, 1e-7, -0.0, 1e21, 5e-324, 1e-6, 1e-5, 0.0001, 1.0, 123456789012345680.0])
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["agent-1e-7", "1.0,", "\x00\x1f", "null", "1e+16"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(TREES, st.booleans())
@example({"\ufb33": 1, "😀": 2}, True)
@example([1e16, -0.0, 1e-7, 5e-324, None], True)
@example(1.0, True)
def test_it_equals_the_reference_implementation(tree: Any, finite: bool) -> None:
    assert canonical(tree, finite=finite) == rfc8785.dumps(tree)


def sort_keys(tree: Any) -> Any:
    """With its keys in their order by code point, and without numbers that RFC 8785 writes otherwise."""
    if isinstance(tree, dict):
        return {key: sort_keys(tree[key]) for key in sorted(tree)}
    if isinstance(tree, list):
        return [sort_keys(one) for one in tree]
    return "odd" if isinstance(tree, float) and is_odd_float(tree) else tree


@given(TREES)
@example({"😀": 2, "\ufb33": 1})
@example([0.0001, 0.00009, 9.5e15, 1e16])
def test_what_is_built_in_order_is_written_as_it_stands(tree: Any) -> None:
    assert encode_ordered(sort_keys(tree)) == rfc8785.dumps(sort_keys(tree))


@given(TREES)
@example({"durationMs": 0.012, "detail": ["a", 1, None]})
@example([1.0])
@example({"😀": 2, "\ufb33": 1})
def test_what_is_said_to_be_written_alike_is(tree: Any) -> None:
    written, alike = digest_alike(tree)
    assert written == digest(tree)
    assert not alike or write_alike(tree) == rfc8785.dumps(tree)


def test_plain_values_are_written_alike_and_odd_ones_are_not() -> None:
    assert digest_alike({"durationMs": 0.012, "text": "agent-1", "none": None})[1]
    assert not digest_alike([1.0])[1]
    assert not digest_alike({"😀": 2, "\ufb33": 1})[1]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(1e-5, 1e-3) | st.floats(1e15, 1e17))
def test_a_number_is_odd_if_a_fast_writer_writes_it_otherwise(number: float) -> None:
    assert is_odd_float(number) >= (orjson.dumps(number) != rfc8785.dumps(number))


def read_given_value(row: dict[str, Any]) -> Any:
    if row["kind"] == "jcs" and "ieee754_hex" in row["input"]:
        return struct.unpack(">d", bytes.fromhex(row["input"]["ieee754_hex"]))[0]
    return json.loads(base64.b64decode(row["input"]["json_b64"]))


def read_expected_bytes(row: dict[str, Any]) -> bytes:
    written = row["input"].get("canonical_b64")
    return row["input"]["number"].encode() if written is None else base64.b64decode(written)


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["id"])
def test_it_gives_the_published_vectors(row: dict[str, Any]) -> None:
    if row["label"] != "reject":
        assert canonical(read_given_value(row)) == read_expected_bytes(row)
    else:
        with pytest.raises(CanonicalError):
            canonical(read_given_value(row))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), SAFE + 1, -SAFE - 1])
def test_a_number_without_a_canonical_form_is_refused_not_altered(number: float) -> None:
    with pytest.raises(CanonicalError):
        canonical({"deep": [1, number]})


@pytest.mark.parametrize("value", [{1: "a"}, {"a": object()}, "\ud800", {"\ud800": 1}])
def test_what_is_no_json_value_is_refused(value: Any) -> None:
    with pytest.raises(CanonicalError):
        canonical(value)


@given(
    st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_integers_too_large_for_json_become_strings_and_no_other_value_changes(tree: Any) -> None:
    written = json.loads(json.dumps(wire_safe(tree)), parse_int=int)

    def same(before: Any, after: Any) -> bool:
        if isinstance(before, dict):
            return before.keys() == after.keys() and all(same(before[key], after[key]) for key in before)
        if isinstance(before, list):
            return len(before) == len(after) and all(map(same, before, after))
        if isinstance(before, int) and abs(before) > SAFE:
            return bool(after == str(before))
        return bool(before == after)

    assert same(tree, written)


def test_the_largest_safe_integer_stays_a_number() -> None:
    assert [wire_int(SAFE), wire_int(SAFE + 1)] == [SAFE, str(SAFE + 1)]


def test_the_digest_is_over_the_canonical_form() -> None:
    assert digest({"b": 1.0, "a": []}) == digest({"a": [], "b": 1})
