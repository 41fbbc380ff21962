"""An action id seen again: the same answer and no count, a conflict, or a new action past the window."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.scene import MINUTE, Session, kinds, verdict_of

REPEATED = (
    "verdict",
    "outcome",
    "shadowOutcome",
    "escalationId",
    "obligations",
    "tier",
    "mode",
    "checkpoints",
)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"toolName": "change"},
        {"toolName": "erase"},
        {"toolName": "erase", "mode": "standard"},
        {"agent_id": "trial", "toolName": "erase"},
        {"parameters": {"c": "rm -rf /"}},
        {"agent_id": "nobody", "mode": "standard"},
    ],
)
def test_a_repeat_gets_the_same_answer_and_counts_nothing(fields: dict[str, Any]) -> None:
    session = Session()
    first = session.verdict(**fields)
    again = session.propose(**fields)
    verdict = verdict_of(again)
    assert kinds(again) == ["Verdict"]
    assert verdict["duplicate_of"] == first["verdict_id"] != verdict["verdict_id"]
    assert {name: verdict[name] for name in REPEATED} == {name: first[name] for name in REPEATED}
    assert verdict["session"]["before"] == verdict["session"]["after"] == first["session"]["after"]
    assert (verdict["gateResults"], verdict["rows_reserved"]) == ([], 0)


def test_a_repeat_of_a_repeat_names_the_first() -> None:
    session = Session()
    first = session.verdict()["verdict_id"]
    assert [session.verdict()["duplicate_of"] for _ in range(2)] == [first, first]


def test_another_action_under_the_same_id_is_denied_and_changes_nothing() -> None:
    session = Session()
    first = session.verdict()
    conflict = session.verdict(rows_affected=50)
    assert (conflict["verdict"], conflict["blockReason"]) == ("denied", "action_id_conflict")
    assert (session.rows, session.actions) == (1, 1)
    assert session.verdict()["duplicate_of"] == first["verdict_id"]


@pytest.mark.parametrize("fields", [{"mode": "standard"}, {"agent_id": "trial"}])
def test_a_conflicting_action_that_is_carried_out_all_the_same_counts(fields: dict[str, Any]) -> None:
    session = Session()
    session.propose(**fields)
    after = session.verdict(rows_affected=50, **fields)["session"]["after"]
    assert after == {"aggregateRowsAffected": 51, "aggregateActionCount": 2}


def test_the_window_ends_after_its_length_in_the_brokers_time() -> None:
    session = Session()
    session.propose()
    session.now += 60 * MINUTE - 1
    assert session.verdict()["duplicate_of"] is not None
    session.now += 1
    new = session.verdict()
    assert new["duplicate_of"] is None
    assert (session.rows, session.actions) == (2, 2)


def test_a_broker_clock_that_steps_back_reopens_no_window() -> None:
    session = Session()
    session.propose()
    session.now += 60 * MINUTE
    session.propose(agent_id="other", action_id="act-2")
    session.now -= 60 * MINUTE
    assert session.verdict()["duplicate_of"] is None


def test_the_same_id_of_another_tenant_is_another_action() -> None:
    session = Session()
    session.propose()
    assert session.verdict(agent_id="other")["blockReason"] is None


@pytest.mark.parametrize(("mode", "counted"), [("high_stakes", 8), ("standard", 9)])
def test_a_session_that_remembers_all_it_can_denies_the_next(mode: str, counted: int) -> None:
    session = Session()
    for number in range(8):
        session.propose(action_id=f"a{number}")
    full = session.verdict(action_id="a8", mode=mode)
    assert (full["verdict"], full["blockReason"]) == ("denied", "session_capacity")
    assert (session.rows, session.actions) == (counted, counted)
    assert session.verdict(action_id="a0")["duplicate_of"] is not None


def test_room_comes_back_with_time() -> None:
    session = Session()
    for number in range(8):
        session.propose(action_id=f"a{number}", agent_id="operator" if number % 2 else "other")
    session.now += 60 * MINUTE
    assert session.verdict(action_id="a8")["verdict"] == "allowed"
    assert sum(len(one.recent) for one in session.state.accounts.values()) == 1


@pytest.mark.parametrize(("mode", "counted"), [("high_stakes", None), ("standard", 1)])
def test_a_tenant_more_than_the_session_holds_is_denied(mode: str, counted: int | None) -> None:
    session = Session()
    session.propose(agent_id="operator")
    session.propose(agent_id="other")
    third = session.verdict(agent_id="trial", mode="high_stakes") if counted is None else None
    assert third is None or third["shadowOutcome"] == "BLOCK"
    verdict = session.verdict(agent_id="trial", mode=mode, action_id="act-9")
    assert (verdict["shadowOutcome"], verdict["blockReason"]) == ("BLOCK", "session_capacity")
    assert session.state.accounts["unregistered"].rows == (2 if counted is None else 1)
