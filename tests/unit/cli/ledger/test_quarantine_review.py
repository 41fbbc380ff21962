"""What became of a review, read off the ledger."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.adapters.kafka.kafka_publish import PublishedAt
from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.cli.ledger.quarantine_review import Outcome, read_outcome
from sluice_topics.catalog import ACTIONS, REVIEWS

PLACED = PublishedAt("p.gate.reviews", 3, 17, -1)
INPUT = {"topic": REVIEWS, "partition": 3, "offset": 17}


def outcome(schema: str, source: Any = None, **fields: Any) -> Outcome | None:
    value = {"schema": f"sluice/{schema}/v1", "input": source or INPUT, **fields}
    return read_outcome(PLACED, _read_stored(json.dumps(value).encode()))


def _read_stored(value: bytes | None) -> StoredRecord:
    return StoredRecord("p.gate.quarantine", 3, 5, 0, b"s1", value, ())


def test_a_review_that_counted_says_how_the_memory_ended() -> None:
    assert outcome("quarantine_approved") == Outcome("approved")
    assert outcome("quarantine_rejected") == Outcome("rejected")


def test_a_refusal_brings_its_reason() -> None:
    refused = outcome("input_refused", reason="wrong_digest", message="of other content")
    assert refused == Outcome("refused", "wrong_digest", "of other content")
    assert not refused.done


def test_a_review_that_came_too_late_is_told_by_its_refusal_alone() -> None:
    assert outcome("quarantine_expired", reason="nobody reviewed it in time") is None
    late = outcome("input_refused", reason="expired", message="the memory expired before")
    assert late == Outcome("expired", "expired", "the memory expired before")


def test_a_dead_letter_is_an_answer_too() -> None:
    letter = outcome("dead_letter", code="wrong_partition", message="use murmur2")
    assert letter == Outcome("unreadable", "wrong_partition", "use murmur2")


@pytest.mark.parametrize(
    "source",
    [{**INPUT, "offset": 18}, {**INPUT, "partition": 2}, {**INPUT, "topic": ACTIONS}, "elsewhere"],
)
def test_what_another_input_brought_about_is_no_answer(source: Any) -> None:
    assert outcome("quarantine_approved", source) is None


@pytest.mark.parametrize("value", [None, b"", b"null", b"[1]", b"\xff", b"{"])
def test_a_value_that_says_nothing_is_no_answer(value: bytes | None) -> None:
    assert read_outcome(PLACED, _read_stored(value)) is None
