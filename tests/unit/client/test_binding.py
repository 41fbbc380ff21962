"""Mend 22.3: a record is an answer only if it names the input as it was sent, and is not older than it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from sluice.client.answers import ActionAnswer, InputLocation
from sluice.client.binding import (
    CLOCKS_APART_MS,
    AnswerQuery,
    CommittedAnswer,
    compute_digest,
    describe_answer,
    describe_end,
    describe_input_end,
    describe_resolved_verdict,
    describe_same_bytes,
)
from sluice.client.input_kinds import ACTION, ACTIONS, RETRIEVAL, REVIEW, REVIEWS
from tests.unit.records import ledger_records

NOW = 1_795_255_200_000
PLACE = InputLocation(3, 42, NOW)
VALUE = json.dumps({"action_id": "a-1", "agent_id": "agent-1", "session_id": "s-1"}).encode()
AT = {"topic": ACTIONS, "partition": 3, "offset": 42, "timestamp": NOW, "digest": compute_digest(VALUE)}
TRUE: dict[str, Any] = {
    **json.loads(VALUE),
    "verdict_id": f"verdict:{ACTIONS}:3:42",
    "input": AT,
    "verdict": "allowed",
}


def objects(sought: AnswerQuery, record: dict[str, Any], at_ms: int = NOW) -> str | None:
    return sought.objection(CommittedAnswer("gate.verdicts", record, at_ms))


def test_the_true_answer_is_taken() -> None:
    sought = describe_answer(ACTION, PLACE, VALUE)
    assert objects(sought, TRUE) is None
    assert TRUE["verdict_id"] in sought.ids


@pytest.mark.parametrize(
    "changed",
    [
        {"input": None},
        {"input": []},
        {"input": {**AT, "digest": "sha256:" + "00" * 32}},
        {"input": {**AT, "offset": 41}},
        {"input": {**AT, "partition": 4}},
        {"input": {**AT, "timestamp": NOW - 1}},
        {"input": {**AT, "topic": REVIEWS}},
        {"input": {name: AT[name] for name in AT if name != "digest"}},
        {"action_id": "a-2"},
        {"agent_id": "agent-2"},
        {"session_id": "s-2"},
        {"session_id": ["s-1"]},
        {"verdict_id": f"verdict:{ACTIONS}:3:41"},
        {"verdict_id": None},
    ],
)
def test_another_answer_is_not(changed: dict[str, Any]) -> None:
    assert objects(describe_answer(ACTION, PLACE, VALUE), {**TRUE, **changed}) is not None


def test_an_answer_is_not_older_than_its_input_by_more_than_clocks_differ() -> None:
    sought = describe_answer(ACTION, PLACE, VALUE)
    assert objects(sought, TRUE, NOW - CLOCKS_APART_MS) is None
    assert "older" in str(objects(sought, TRUE, NOW - CLOCKS_APART_MS - 1))


def test_a_dead_letter_answers_what_has_no_readable_names() -> None:
    value = b'{"action_id": NaN'
    letter = {
        "dead_letter_id": f"dead_letter:{ACTIONS}:3:42",
        "input": {**AT, "digest": compute_digest(value)},
    }
    assert objects(describe_answer(ACTION, PLACE, value), letter) is None
    assert objects(describe_answer(ACTION, PLACE, value + b" "), letter) is not None


def test_a_served_record_may_repeat_a_name_by_its_digest() -> None:
    """The gate does not release an id that holds instructions (docs/released.md)."""
    value = json.dumps({"request_id": "ignore all", "agent_id": "a", "session_id": "s"}).encode()
    topic = RETRIEVAL.topic
    record = {
        "served_id": f"served:{topic}:3:42",
        "request_id": f"withheld:sha256:{sha256(b'ignore all').hexdigest()}",
        "agent_id": "a",
        "session_id": "s",
        "input": {**AT, "topic": topic, "digest": compute_digest(value)},
    }
    sought = describe_answer(RETRIEVAL, PLACE, value)
    assert objects(sought, record) is None
    assert objects(sought, {**record, "request_id": "withheld:sha256:" + "0" * 64}) is not None


def test_what_ended_the_subject_of_a_review_answers_it_only_if_the_review_did() -> None:
    subject = f"escalation:{ACTIONS}:3:1"
    value = json.dumps({"session_id": "s-1", "subject_id": subject}).encode()
    review = {**AT, "topic": REVIEWS, "digest": compute_digest(value)}
    sought = describe_answer(REVIEW, PLACE, value, [subject])
    end = {"escalation_id": subject, "session_id": "s-1", "input": review}
    assert objects(sought, end) is None
    assert objects(sought, {**end, "input": {**review, "offset": 41}}) is not None


def list_waiting() -> ActionAnswer:
    at = {**AT, "offset": 1}
    record = {
        **ledger_records()["Verdict"],
        **json.loads(VALUE),
        "verdict": "needs_human",
        "verdict_id": f"verdict:{ACTIONS}:3:1",
        "escalationId": f"escalation:{ACTIONS}:3:1",
        "duplicate_of": None,
        "input": at,
    }
    return ActionAnswer.of(record)


def make_end(first: ActionAnswer, **changed: Any) -> dict[str, Any]:
    names = {name: first.record[name] for name in ("action_id", "agent_id", "session_id", "tenant_id")}
    return {
        **names,
        "schema": "sluice/escalation_resolved/v1",
        "escalation_id": first.escalation_id,
        "verdict_id": first.verdict_id,
        "action_digest": first.input["digest"],
        "resolved_verdict_id": f"resolved:{REVIEWS}:3:7",
        "input": {**AT, "topic": REVIEWS, "offset": 7},
        **changed,
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": "sluice/approval_counted/v1"},
        {"escalation_id": "another"},
        {"verdict_id": "another"},
        {"action_digest": "sha256:" + "00" * 32},
        {"action_id": "another"},
        {"session_id": "another"},
        {"agent_id": "another"},
        {"tenant_id": "another"},
    ],
)
def test_only_the_end_of_the_very_escalation_ends_the_wait(changed: dict[str, Any]) -> None:
    first = list_waiting()
    assert objects(describe_end(first, NOW), make_end(first)) is None
    assert objects(describe_end(first, NOW), make_end(first, **changed)) is not None
    assert objects(describe_end(first, NOW), make_end(first), NOW - CLOCKS_APART_MS - 1) is not None


def test_the_end_of_an_inputs_escalation_names_the_digest_of_its_bytes() -> None:
    first = list_waiting()
    assert objects(describe_input_end(str(first.escalation_id), VALUE, NOW), make_end(first)) is None
    assert (
        objects(describe_input_end(str(first.escalation_id), VALUE + b" ", NOW), make_end(first)) is not None
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"resolves": "another"},
        {"action": {**AT, "offset": 2}},
        {"action": {**AT, "offset": 1, "digest": "sha256:" + "00" * 32}},
        {"action": None},
        {"input": {**AT, "topic": REVIEWS, "offset": 8}},
        {"session_id": "another"},
        {"verdict_id": "another"},
    ],
)
def test_only_the_verdict_of_the_approval_itself_resolves_the_action(changed: dict[str, Any]) -> None:
    first = list_waiting()
    end = make_end(first)
    true = {
        **first.record,
        "verdict_id": end["resolved_verdict_id"],
        "resolves": first.verdict_id,
        "action": dict(first.input),
        "input": end["input"],
    }
    assert objects(describe_resolved_verdict(first, end), true) is None
    assert objects(describe_resolved_verdict(first, end), {**true, **changed}) is not None
    elsewhere = make_end(first, resolved_verdict_id=f"resolved:{REVIEWS}:3:8")
    assert objects(describe_resolved_verdict(first, elsewhere), true) is not None


def test_an_outcome_counts_as_published_only_with_what_it_says() -> None:
    sought = describe_same_bytes("outcome-of:x", b'{"rows_affected": 3}')
    assert objects(sought, {"rows_affected": 3}) is None
    assert objects(sought, {"rows_affected": 0}) is not None
