"""A write without usable quality metadata names every field that is wrong (seed 004, "Failure modes")."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.metadata.write_quality import Fault, WriteQuality, find_faults
from sluice_topics.records import ProposedMemoryWrite

NOW = 1_763_730_000_000
"""2025-11-21T13:00:00Z."""
COMPLETE: dict[str, Any] = {
    "content_class": "internal_policy",
    "timestamp": "2025-11-20T09:00:00+01:00",
    "confidence_score": 0.9,
    "provenance_uri": "https://wiki.example.com/policies/travel?version=7",
    "provenance_hash": "sha256:" + "0a" * 32,
}
FIELDS = list(COMPLETE)


def find_result(quality: WriteQuality | None = None, **fields: Any) -> tuple[Fault, ...]:
    write = ProposedMemoryWrite.model_validate(
        {
            "write_id": "w-1",
            "agent_id": "reader",
            "session_id": "s-1",
            "content": "Trips over 500 km may go by train or by plane.",
            "source": {"id": "wiki", "type": "user"},
            **{name: value for name, value in {**COMPLETE, **fields}.items() if value != "absent"},
        }
    )
    return find_faults(quality or WriteQuality(), write, NOW, frozenset({"w-1", "s-1", "writes:0:12"}))


def problem(field: str, value: Any, quality: WriteQuality | None = None) -> str | None:
    """What is wrong with one field; nothing else may be."""
    listed = find_result(quality, **{field: value})
    assert {one.field for one in listed} <= {field}
    return listed[0].problem if listed else None


def test_complete_metadata_has_no_fault() -> None:
    assert find_result() == ()


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", ["absent", None])
def test_a_missing_field_is_named(field: str, value: Any) -> None:
    assert find_result(**{field: value}) == (Fault(field, "missing"),)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [[], {}, True, "\u0660\n"])
def test_a_field_of_another_type_is_malformed(field: str, value: Any) -> None:
    assert problem(field, value) is not None


def test_all_faults_are_listed_in_the_order_of_the_fields() -> None:
    nothing: dict[str, Any] = dict.fromkeys(FIELDS, "absent")
    assert [one.field for one in find_result(**nothing)] == FIELDS


@pytest.mark.parametrize("value", ["legal_text", "Pricing.EU-2", "a:b", "x"])
def test_a_class_is_any_name_where_the_bundle_lists_none(value: str) -> None:
    assert problem("content_class", value) is None


@pytest.mark.parametrize("value", ["two words", "_hidden", "x" * 129, "klassß", "a\n", " a"])
def test_a_class_that_is_no_name_is_malformed(value: str) -> None:
    assert "malformed" in str(problem("content_class", value))


def test_a_class_that_the_bundle_does_not_list_is_unknown() -> None:
    listed = WriteQuality(content_classes=["legal_text"])
    assert problem("content_class", "internal_policy", listed) == "unknown: none of legal_text"
    assert problem("content_class", "legal_text", listed) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2025-11-21T13:05:00Z", None),
        ("2025-11-21T13:05:00.001Z", "in the future"),
        ("2025-11-21T14:05:00+01:00", None),
        ("2025-11-21T08:05:01-05:00", "in the future"),
        ("1999-12-31T23:59:59Z", None),
    ],
)
def test_a_timestamp_may_be_ahead_of_the_brokers_time_by_the_skew_alone(
    value: str, expected: str | None
) -> None:
    assert problem("timestamp", value) == expected


@pytest.mark.parametrize("value", ["yesterday", "2025-11-20", "2025-11-20T09:00:00", "2025-02-30T09:00:00Z"])
def test_a_timestamp_that_is_no_moment_is_malformed(value: str) -> None:
    assert "malformed" in str(problem("timestamp", value))


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.5])
def test_a_confidence_is_a_number_from_0_to_1(value: float) -> None:
    assert problem("confidence_score", value) is None


@pytest.mark.parametrize("value", [-0.01, 1.01, 2, -1, 10**400, float("nan"), float("inf"), "0.9", True])
def test_any_other_confidence_is_malformed(value: Any) -> None:
    assert "malformed" in str(problem("confidence_score", value))


@pytest.mark.parametrize(
    "value", ["sha256:" + "0A" * 32, "sha256:" + "0a" * 31, "md5:" + "0a" * 16, "0a" * 32, "sha256:"]
)
def test_a_hash_is_a_sha256(value: str) -> None:
    assert "malformed" in str(problem("provenance_hash", value))


def test_a_reference_is_bounded_and_of_the_bundles_schemes() -> None:
    long = "https://wiki.example.com/" + "a" * 2048
    assert problem("provenance_uri", long) == "malformed: over 2048 characters"
    narrow = WriteQuality(provenance_schemes=["gate-source"])
    assert (
        problem("provenance_uri", "https://wiki.example.com/", narrow) == "the scheme is none of gate-source"
    )


def test_a_reference_to_the_write_itself_is_a_fault() -> None:
    for own in ("w-1", "s-1", "writes:0:12"):
        assert problem("provenance_uri", f"https://store.example.com/{own}") == f"refers to itself: {own}"
