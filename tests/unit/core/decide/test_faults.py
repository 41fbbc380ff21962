"""Where the core itself fails, an input is still answered, and its rows still count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.input_record import InputRecord
from sluice_topics.record_reading import Unreadable
from tests.unit.core.scene import START, Session, action, kinds, only, outcome, read_record, verdict_of

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision

ACTIONS, OUTCOMES = "gate.actions.proposed", "gate.outcomes"


def fault(session: Session, topic: str, record: dict[str, Any]) -> Decision:
    input_record = session.input_record(topic, record)
    decision = session.point.fault(
        input_record, read_record(topic, input_record.value), session.state, "KeyError in x"
    )
    session.state.apply(decision.session)
    return decision


@pytest.mark.parametrize(
    ("fields", "outcome_", "shadow", "counted"),
    [
        ({}, "BLOCK", None, 0),
        ({"mode": None}, "BLOCK", None, 0),
        ({"mode": "standard"}, "ALLOW", None, 1),
        ({"agent_id": "trial"}, "ALLOW", "BLOCK", 1),
        ({"agent_id": "nobody", "mode": "standard"}, "ALLOW", None, 1),
    ],
)
def test_a_fault_denies_or_in_standard_mode_allows_with_an_advisory(
    fields: dict[str, Any], outcome_: str, shadow: str | None, counted: int
) -> None:
    decision = fault(Session(), ACTIONS, action(**fields))
    verdict = verdict_of(decision)
    assert kinds(decision) == ["Verdict", "DeadLetter"]
    assert (verdict["outcome"], verdict["shadowOutcome"]) == (outcome_, shadow)
    assert verdict["blockReason"] == ("internal_error" if "BLOCK" in (outcome_, shadow) else None)
    assert verdict["session"]["after"]["aggregateRowsAffected"] == counted
    assert "sluice.core" in [one["source"] for one in verdict["advisories"]]
    assert only(decision, "DeadLetter")["message"] == "KeyError in x"


def test_a_fault_without_a_row_count_reserves_the_largest_upper_bound() -> None:
    session = Session()
    fault(session, ACTIONS, action(mode="standard", rows_affected=None))
    assert session.rows == 100


def test_a_repeat_after_a_fault_counts_nothing_more() -> None:
    session = Session()
    fault(session, ACTIONS, action(mode="standard"))
    fault(session, ACTIONS, action(mode="standard"))
    assert session.verdict(mode="standard")["duplicate_of"] == "verdict:gate.actions.proposed:3:1"
    assert session.rows == 1


def test_a_faulty_outcome_is_refused_and_kept() -> None:
    session = Session()
    session.propose()
    decision = fault(session, OUTCOMES, outcome(rows_affected=9))
    assert kinds(decision) == ["InputRefused", "DeadLetter"]
    assert session.rows == 1


@pytest.mark.parametrize(("topic", "first"), [(ACTIONS, "Verdict"), (OUTCOMES, "InputRefused")])
def test_an_input_of_three_crashes_is_denied_unread(topic: str, first: str) -> None:
    input_record = InputRecord(topic, 0, 7, START, b"s-1", b"\xff not even JSON")
    decision = Session().point.unread(input_record)
    assert (kinds(decision), decision.session) == ([first, "DeadLetter"], ())
    if first == "Verdict":
        verdict = verdict_of(decision)
        assert (verdict["verdict"], verdict["blockReason"]) == ("denied", "internal_error")
        assert [verdict[name] for name in ("action_id", "agent_id", "session_id", "tier")] == [None] * 4


def test_a_fault_while_reading_is_answered_without_the_message() -> None:
    input_record = InputRecord(ACTIONS, 0, 7, START, b"s-1", b"{}")
    decision = Session().point.fault(input_record, None, Session().state, "RecursionError \ud800")
    assert kinds(decision) == ["Verdict", "DeadLetter"]
    assert only(decision, "DeadLetter")["message"] == "RecursionError \\ud800"


@pytest.mark.parametrize(
    ("value", "kept", "truncated"),
    [(b"x" * 10, 10, False), (b"x" * (2**20 + 1), 2**20, True), (None, 0, False)],
)
def test_a_dead_letter_keeps_the_input_up_to_a_bound(value: bytes | None, kept: int, truncated: bool) -> None:
    input_record = InputRecord(ACTIONS, 0, 7, START, b"\xff", value)
    decision = Session().point.unreadable(input_record, Unreadable("not_json", "$", "no"))
    letter = only(decision, "DeadLetter")
    assert (letter["value_size"], letter["truncated"]) == (len(value or b""), truncated)
    assert len(letter["value_base64"]) == -(-kept // 3) * 4
    assert decision.records[0].subject == ""


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (b'{"action_id": "a", "session_id": "s", "toolName": 1}', {"action_id": "a", "session_id": "s"}),
        (b'{"action_id": "", "agent_id": 7, "session_id": "%s"}' % (b"s" * 257), {}),
        (b'["action_id"]', {}),
        (b'{"action_id": "a"', {}),
        (b'{"action_id": "\\ud800"}', {}),
        (b'{"action_id": "a", "b": "%s"}' % (b"x" * 2**20), {}),
        (b"[" * 100_000, {}),
        (None, {}),
    ],
)
def test_a_dead_letter_tells_the_ids_that_could_be_read(value: bytes | None, ids: dict[str, str]) -> None:
    input_record = InputRecord(ACTIONS, 0, 7, START, b"s", value)
    decision = Session().point.unreadable(input_record, Unreadable("wrong_type", "$.toolName", "no text"))
    assert only(decision, "DeadLetter")["ids"] == ids
    assert only(Session().point.unread(input_record), "DeadLetter")["ids"] is None, "it is not looked into"
