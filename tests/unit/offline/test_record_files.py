"""Lines of a file as records of the input topics."""

from __future__ import annotations

import json

import pytest

from sluice.core.foundation.clock import read_milliseconds
from sluice.offline.record_files import ClockError, read_input_records
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, OUTCOMES, REPORTED, RETRIEVALS, REVIEWS

NOON = read_milliseconds("2026-01-01T12:00:00Z")
ACTION = b'{"session_id": "s1", "toolName": "find"}'
OUTCOME = b'{"session_id": "s1", "reported_by": "door"}'


def test_each_line_is_one_record_with_its_own_bytes_and_the_session_s_key() -> None:
    first, second = read_input_records([ACTION + b"\n", b"  \n", OUTCOME], NOON)
    assert (first.topic, first.offset, first.value, first.key) == (ACTIONS, 1, ACTION, b"s1")
    assert (second.topic, second.offset, second.value, second.timestamp_ms) == (OUTCOMES, 3, OUTCOME, NOON)


def test_writes_and_reviews_are_known_by_the_id_that_only_they_have() -> None:
    write, review = read_input_records(
        [b'{"session_id": "s1", "write_id": "w"}', b'{"subject_id": "m"}'], NOON
    )
    assert (write.topic, write.key) == (MEMORY_WRITES, b"s1")
    assert (review.topic, review.key) == (REVIEWS, None)


def test_a_retrieval_is_known_by_its_items_and_a_store_s_report_goes_before_it_and_before_an_outcome() -> (
    None
):
    read = b'{"session_id": "s1", "request_id": "r", "items": [{"item_id": "i"}]}'
    said = (
        b'{"session_id": "s1", "report_id": "p", "request_id": "r", "items": ["i"], "reported_by": "store"}'
    )
    assert [one.topic for one in read_input_records([read, said, OUTCOME], NOON)] == [
        RETRIEVALS,
        REPORTED,
        OUTCOMES,
    ]


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b'{"session_id": 5}', b"\xff", b'{"a": 1, "a": 2}'])
def test_what_is_no_record_still_arrives(line: bytes) -> None:
    (only,) = read_input_records([line], NOON)
    assert (only.topic, only.key, only.value) == (ACTIONS, None, line)


def test_a_line_that_is_only_a_time_moves_the_clock_for_those_below() -> None:
    later = json.dumps({"at": "2026-01-01T12:00:01.500Z"}).encode()
    before, after, last = read_input_records([ACTION, later, ACTION, ACTION], NOON)
    assert [one.timestamp_ms - NOON for one in (before, after, last)] == [0, 1500, 1500]
    assert [one.offset for one in (before, after, last)] == [1, 3, 4]


def test_a_time_with_anything_beside_it_is_a_record() -> None:
    (only,) = read_input_records([b'{"at": "2026-01-01T12:00:01Z", "session_id": "s"}'], NOON)
    assert only.timestamp_ms == NOON


@pytest.mark.parametrize("at", ["soon", 5, None, "2026-01-01T12:00:00+01:00", "2026-01-01T12:00:00"])
def test_a_time_that_is_none_is_named_with_its_line(at: object) -> None:
    with pytest.raises(ClockError, match="line 2"):
        list(read_input_records([ACTION, json.dumps({"at": at}).encode()], NOON))
