"""An item's metadata as the gate reads it: whatever a store hands over."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.metadata.provenance import ProvenanceState
from sluice.core.retrieval.dimensions import ItemFacts, judge_item, read_class, read_facts
from sluice.core.retrieval.provenance_check import ProvenanceCheck
from sluice_topics.records.retrieval_inputs import RetrievedItem
from tests.unit.core.retrieval.quality_scene import NOTE, item_facts, quality_bundle

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z
VERIFIED = ProvenanceCheck(ProvenanceState("verified", "its hash verifies"), verified=True)


def read(**fields: Any) -> ItemFacts:
    item = RetrievedItem(item_id="i", **fields)
    return read_facts(item, read_class(item.content_class), "trader", VERIFIED, NOW)


@pytest.mark.parametrize(
    ("fields", "age_ms", "problem"),
    [
        ({"timestamp": "2026-01-01T00:00:00Z"}, 0, None),
        ({"timestamp": "2025-12-31T23:59:59.999Z"}, 1, None),
        ({"timestamp": "2026-01-01T00:00:00.001Z"}, -1, "in the future"),
        ({"timestamp": "2026-01-01T01:00:00+01:00"}, 0, None),
        ({"timestamp": "2025-12-31t23:00:00.0z"}, 3_600_000, None),
        ({"timestamp": "2025-12-31T23:59:60Z"}, 0, None),
        ({"timestamp": "0001-01-01T00:00:00Z"}, NOW + 62_135_596_800_000, None),
        ({}, None, "missing"),
        ({"timestamp": None}, None, "missing"),
        ({"timestamp": ""}, None, "missing"),
        ({"timestamp": "2026-01-01"}, None, "malformed: not an RFC 3339 date-time with an offset"),
        ({"timestamp": "2026-01-01T00:00:00"}, None, "malformed: not an RFC 3339 date-time with an offset"),
        ({"timestamp": "2026-02-30T00:00:00Z"}, None, "malformed: not an RFC 3339 date-time with an offset"),
        ({"timestamp": "2026-W01-4T00:00:00Z"}, None, "malformed: not an RFC 3339 date-time with an offset"),
        ({"timestamp": "2025-12-31T24:00:00Z"}, None, "malformed: not an RFC 3339 date-time with an offset"),
        ({"timestamp": NOW}, None, "malformed: not a string"),
        ({"timestamp": ["2026-01-01T00:00:00Z"]}, None, "malformed: not a string"),
    ],
)
def test_the_age_is_from_the_timestamp_to_the_brokers_time(
    fields: dict[str, Any], age_ms: int | None, problem: str | None
) -> None:
    facts = read(**fields)
    assert (facts.age_ms, facts.age_problem) == (age_ms, problem)


@pytest.mark.parametrize(
    ("asserted", "age_ms", "problem"),
    [
        (None, 60_000, None),
        ("2025-12-31T23:59:59Z", 1000, None),
        ("2026-01-01T00:00:01Z", -1000, "in the future"),
        ("", None, "missing"),
        ("fresh", None, "malformed: not an RFC 3339 date-time with an offset"),
        (True, None, "malformed: not a string"),
        ([], None, "malformed: not a string"),
        (
            {"asserted_at": "2025-12-31T23:59:59Z"},
            None,
            "malformed: not an RFC 3339 date-time with an offset",
        ),
    ],
)
def test_an_assertion_replaces_the_timestamp_and_a_bad_one_is_not_passed_over(
    asserted: Any, age_ms: int | None, problem: str | None
) -> None:
    facts = read(timestamp="2025-12-31T23:59:00Z", freshness_assertion=asserted)
    assert (facts.age_ms, facts.age_problem) == (age_ms, problem)


@pytest.mark.parametrize(
    ("score", "kept", "problem"),
    [
        (0, 0, None),
        (1, 1, None),
        (0.5, 0.5, None),
        (-0.0, -0.0, None),
        (None, None, "missing"),
        (1.5, 1.5, "malformed: not within 0 and 1"),
        (-0.1, -0.1, "malformed: not within 0 and 1"),
        (100, 100, "malformed: not within 0 and 1"),
        (2**60, None, "malformed: not within 0 and 1"),
        (float("inf"), None, "malformed: not within 0 and 1"),
        (float("nan"), None, "malformed: not within 0 and 1"),
        ("0.9", None, "malformed: not a number"),
        (True, None, "malformed: not a number"),
        ([0.9], None, "malformed: not a number"),
    ],
)
def test_a_score_is_a_number_from_0_to_1_and_what_a_ledger_cannot_hold_is_left_out(
    score: Any, kept: float | None, problem: str | None
) -> None:
    facts = read(confidence_score=score)
    assert (facts.confidence, facts.confidence_problem) == (kept, problem)


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (NOTE, NOTE),
        ("a" * 128, "a" * 128),
        ("a" * 129, None),
        ("", None),
        ("a b", None),
        (5, None),
        (None, None),
    ],
)
def test_a_class_is_a_name(given: Any, known: str | None) -> None:
    assert read(content_class=given).content_class == known


def test_the_tool_and_where_the_reference_leads_are_handed_on() -> None:
    facts = read()
    assert (facts.tool_name, facts.provenance) == ("trader", VERIFIED.state)


def test_a_decision_says_what_was_compared_and_the_gravest_first() -> None:
    facts = item_facts(age_ms=3_600_001, confidence=0.4)
    found = judge_item(quality_bundle(), "bounded", facts)
    assert found.reason == "freshness: 1 h old (3600.001 s); note may be 1 h old (3600 s)"
    assert [one["detail"] for one in found.dimensions][1:] == ["0.4 is below 0.5", "its hash verifies"]
    assert judge_item(quality_bundle(), "bounded", item_facts()).reason is None
