"""What `sluice publish` makes of a file's lines."""

from __future__ import annotations

import json

from sluice.cli.machine.publish import Invalid, check_lines, read_key_field, read_unchecked, split_lines
from sluice.client.kafka_writing import Outgoing
from sluice_topics.catalog import ACTIONS, BY_NAME, MEMORY_WRITES, OUTCOMES
from tests.unit import memory_records

TIME = "2026-01-01T00:00:00.000Z"
ACTION = {"action_id": "a1", "agent_id": "g1", "session_id": "s1", "toolName": "db.read", "parameters": {}}


def test_a_valid_line_goes_out_letter_for_letter_keyed_by_its_session() -> None:
    raw = b'  {"action_id": "a1", "agent_id":"g1", "session_id":"s\\u0031","toolName":"t","parameters":{}} '
    (line,) = check_lines(split_lines(raw + b"\n"), BY_NAME[ACTIONS], "session_id", TIME)
    assert isinstance(line.content, Outgoing)
    assert (line.content.key, line.content.value) == (b"s1", raw)


def test_a_valid_line_carries_cloud_event_headers_and_a_trace() -> None:
    (line,) = check_lines([(1, json.dumps(ACTION).encode())], BY_NAME[ACTIONS], "session_id", TIME)
    assert isinstance(line.content, Outgoing)
    headers = dict(line.content.headers)
    assert headers["ce_id"] == b"a1"
    assert headers["ce_type"] == b"sluice.gate.proposed_action.v1"
    assert headers["ce_time"] == TIME.encode()
    assert headers["traceparent"].startswith(b"00-")


def test_an_invalid_line_keeps_its_number_and_the_place_of_its_error() -> None:
    raw = json.dumps(ACTION).encode() + b"\n\n" + json.dumps(ACTION | {"session_id": 5}).encode()
    first, second = check_lines(split_lines(raw), BY_NAME[ACTIONS], "session_id", TIME)
    assert (first.number, second.number) == (1, 3)
    assert isinstance(second.content, Invalid)
    assert (second.content.why.code, second.content.why.path) == ("wrong_type", "$.session_id")


def test_each_topic_holds_lines_against_its_own_record() -> None:
    outcome = {"action_id": "a1", "session_id": "s1", "rows_affected": 3, "reported_by": "pep"}
    value = json.dumps(outcome).encode()
    (good,) = check_lines([(1, value)], BY_NAME[OUTCOMES], "session_id", TIME)
    (bad,) = check_lines([(1, value)], BY_NAME[ACTIONS], "session_id", TIME)
    assert isinstance(good.content, Outgoing)
    assert isinstance(bad.content, Invalid)


def test_a_memory_write_goes_out_under_its_own_id() -> None:
    value = json.dumps(memory_records.write()).encode()
    (line,) = check_lines([(1, value)], BY_NAME[MEMORY_WRITES], "session_id", TIME)
    assert isinstance(line.content, Outgoing)
    assert dict(line.content.headers)["ce_id"] == b"w-1"


def test_raw_lines_go_out_whatever_they_hold_with_a_key_where_one_can_be_read() -> None:
    raw = b'{"session_id":"s1","x":NaN}\n\xff\xfe\n[1]\n{"session_id":7}\n' + b"[" * 200_000
    lines = list(read_unchecked(split_lines(raw), "session_id"))
    contents = [line.content for line in lines if isinstance(line.content, Outgoing)]
    assert [content.key for content in contents] == [b"s1", None, None, None, None]
    assert b"\n".join(content.value or b"" for content in contents) == raw
    assert all(content.headers == () for content in contents)


def test_another_field_may_be_the_key() -> None:
    assert read_key_field(b'{"session_id":"s","agent_id":"g"}', "agent_id") == b"g"
    assert read_key_field(b'{"session_id":"\\ud800"}', "session_id") is None
