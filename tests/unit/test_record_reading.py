"""Bytes become a record or a reason; there is no third way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from load.inputs.malformed import kinds, readable
from sluice_topics.catalog import MAX_INPUT_VALUE_BYTES
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ActionOutcome, ProposedAction, ReviewDecision
from tests.unit.records import HASH, action, value

KINDS = kinds()


def read_action(document: Any) -> ProposedAction:
    record = read(ProposedAction, value(document))
    assert isinstance(record, ProposedAction), record
    return record


def collect_refusals(raw: bytes | None) -> tuple[str, str]:
    result = read(ProposedAction, raw)
    assert isinstance(result, Unreadable), result
    return result.code, result.path


def test_a_full_action_is_read_with_every_field() -> None:
    record = read_action(action())
    assert record.model_dump(by_alias=True) == action()


def test_an_action_needs_only_its_ids_tool_and_parameters() -> None:
    required = {"action_id": "a", "agent_id": "b", "session_id": "c", "toolName": "d", "parameters": {}}
    record = read_action(required)
    assert record.model_dump(by_alias=True, exclude_none=True) == required


def test_null_stands_for_an_absent_optional_field() -> None:
    assert read_action(action(mode=None, rows_affected=None)).mode is None


def test_both_spellings_are_the_same_action() -> None:
    snake = {
        "tool_name" if key == "toolName" else "trace_id" if key == "traceId" else key: field
        for key, field in action().items()
    }
    assert read_action(snake) == read_action(action())


def test_seed_000s_form_is_the_same_action() -> None:
    full = action()
    seed = {"action": full.pop("toolName"), "value": full.pop("parameters")}
    assert read_action({**full, "proposed_action": seed}) == read_action(action())


def test_seed_000s_form_is_for_actions_only() -> None:
    raw = value(
        {"action_id": "a", "session_id": "s", "rows_affected": 1, "reported_by": "e", "proposed_action": {}}
    )
    assert isinstance(read(ActionOutcome, raw), Unreadable)


@pytest.mark.parametrize("rows", [0, 2**53, 2**53 + 1, 2**64 + 1, pytest.param(10**998, id="huge")])
def test_integers_of_any_size_stay_exact(rows: int) -> None:
    record = read_action(action(rows_affected=min(rows, 10**35), parameters={"rows": [-rows]}))
    assert (record.rows_affected, record.parameters) == (min(rows, 10**35), {"rows": [-rows]})


def test_paired_surrogates_and_escaped_backslashes_are_characters() -> None:
    raw = value(action()).replace(b'"SELECT 1"', rb'"\ud83d\ude00 \\ud800"')
    record = read(ProposedAction, raw)
    assert isinstance(record, ProposedAction)
    assert record.parameters["statement"] == "\U0001f600 \\ud800"


def test_brackets_in_strings_are_not_depth() -> None:
    assert read_action(action(reasoning="[{" * 1000 + '"\\')).reasoning == "[{" * 1000 + '"\\'


def test_sixty_four_levels_are_read_and_one_more_is_refused() -> None:
    below = 62  # the action and its parameters are two
    nested = b"[" * below + b"]" * below
    raw = value(action(parameters={"deep": 0})).replace(b'"deep": 0', b'"deep": ' + nested)
    assert isinstance(read(ProposedAction, raw), ProposedAction)
    assert collect_refusals(raw.replace(nested, b"[" + nested + b"]")) == (
        "too_deep",
        "$.parameters.deep" + "[0]" * below,
    )


def test_a_megabyte_is_read_and_one_byte_more_is_refused() -> None:
    room = MAX_INPUT_VALUE_BYTES - len(value(action(reasoning="")))
    assert read_action(action(reasoning="x" * room)).reasoning == "x" * room
    assert collect_refusals(value(action(reasoning="x" * (room + 1)))) == ("too_large", "$")


@pytest.mark.parametrize(
    ("raw", "code", "path"),
    [
        (None, "empty", "$"),
        (b"", "empty", "$"),
        (b"\xff", "not_utf8", "$"),
        (b'{"parameters": {"a": ["\xc3\x28"]}}', "not_utf8", "$.parameters.a[0]"),
        (b"\xef\xbb\xbf{}", "not_json", "$"),
        (b"{}{}", "not_json", "$"),
        (b'{"parameters": {"rows": [1, 2, tru]}}', "not_json", "$.parameters.rows[2]"),
        (b'{"a": 1, "a": 1}', "duplicate_key", "$.a"),
        (b'{"parameters": {"a": [0, {"b": 1, "\\u0062": 2}]}}', "duplicate_key", "$.parameters.a[1].b"),
        (b'{"rows_affected": NaN}', "not_finite", "$.rows_affected"),
        (b'{"parameters": [1e999]}', "not_finite", "$.parameters[0]"),
        (b'{"rows_affected": ' + b"1" * 1001 + b"}", "too_long_number", "$.rows_affected"),
        (b'{"parameters": {"x y": "\\udc00"}}', "lone_surrogate", '$.parameters["x y"]'),
        (b"[]", "wrong_type", "$"),
        (value(action(extra=1)), "unknown_field", "$.extra"),
        (value(action(governanceContext={"extra": 1})), "unknown_field", "$.governanceContext.extra"),
        (value(action(tool_name="x")), "ambiguous_field", "$.tool_name"),
        (value(action(proposed_action={"action": "x", "value": {}})), "ambiguous_field", "$.proposed_action"),
        (value({"action_id": "a"}), "missing_field", "$.agent_id"),
        (value(action(session_id=None)), "wrong_type", "$.session_id"),
        (value(action(rows_affected=1.0)), "wrong_type", "$.rows_affected"),
        (value(action(rows_affected=True)), "wrong_type", "$.rows_affected"),
        (value(action(rows_affected=-1)), "invalid_value", "$.rows_affected"),
        (value(action(mode="HIGH")), "invalid_value", "$.mode"),
        (value(action(mode=1)), "wrong_type", "$.mode"),
        (value(action(action_id="x" * 257)), "invalid_value", "$.action_id"),
        (value(action(acknowledged_flags=["a", 1])), "wrong_type", "$.acknowledged_flags[1]"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(raw: bytes | None, code: str, path: str) -> None:
    assert collect_refusals(raw) == (code, path)


@pytest.mark.parametrize("field", ["action_id", "session_id", "rows_affected", "reported_by"])
def test_an_outcome_needs_each_of_its_fields(field: str) -> None:
    outcome = {"action_id": "a", "session_id": "s", "rows_affected": 0, "reported_by": "e"}
    assert isinstance(read(ActionOutcome, value(outcome)), ActionOutcome)
    del outcome[field]
    assert read(ActionOutcome, value(outcome)) == Unreadable(
        "missing_field", f"$.{field}", "the field is required"
    )


def test_a_review_is_bound_to_a_digest() -> None:
    review = {
        "subject_id": "e-1",
        "session_id": "s-1",
        "decision": "approve",
        "approver_id": "p-1",
        "digest": HASH,
        "justification": "checked",
        "signature": "c2ln",
    }
    assert isinstance(read(ReviewDecision, value(review)), ReviewDecision)
    result = read(ReviewDecision, value(review | {"digest": "md5:0"}))
    assert isinstance(result, Unreadable)
    assert (result.code, result.path) == ("invalid_value", "$.digest")


def test_there_are_over_two_hundred_kinds_of_malformed_input() -> None:
    assert len(KINDS) >= 200
    assert isinstance(read(ProposedAction, readable("s", "1")), ProposedAction)


@pytest.mark.parametrize("kind", KINDS)
def test_malformed_input_is_unreadable(kind: str) -> None:
    result = read(ProposedAction, KINDS[kind]("session", "salt"))
    assert isinstance(result, Unreadable)
    assert result.path.startswith("$")
    json.dumps(result.message, ensure_ascii=False).encode()  # a dead letter can carry it
    assert len(result.message) < 500
