"""An action id seen again: the same answer and no count, a conflict, or a new action past the window."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.scene import MINUTE, Session, kinds, read_stored_bytes, verdict_of

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
    ],
)
def test_a_repeat_gets_the_same_answer_and_counts_nothing(fields: dict[str, Any]) -> None:
    session = Session()
    first = session.verdict(**fields)
    again = session.propose(**fields)
    verdict = verdict_of(again)
    assert kinds(again) == ["Verdict"]
    assert verdict["duplicate_of"] == first["verdict_id"] != verdict["verdict_id"]
    expected = {name: first[name] for name in REPEATED}
    # What comes in and what goes out is not read a second time: these say only that no check ran.
    expected["checkpoints"] = first["checkpoints"] | {"front": "observed", "back": "observed"}
    assert {name: verdict[name] for name in REPEATED} == expected
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
    agents = [known for one in session.state.accounts.values() for known in one.agents.values()]
    assert [len(known.recent) for known in agents] == [1]


FILLERS = ["nobody", "other", "chief", "trial"]


@pytest.mark.parametrize(
    "filler", FILLERS, ids=["unregistered", "of another tenant", "a sibling", "shadowed"]
)
@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_no_stranger_fills_another_agents_room(filler: str, mode: str) -> None:
    """Mend 3: a session has room for each of its agents, and an unregistered caller takes none."""
    session = Session()
    session.propose(action_id="first")
    for number in range(20):
        session.propose(action_id=f"x{number}", agent_id=filler, mode=mode)
    size = read_stored_bytes(session.state)
    for number in range(20, 40):
        session.propose(action_id=f"x{number}", agent_id=filler, mode=mode)
    assert read_stored_bytes(session.state) < size + 50, "the state stops growing"
    for number in range(7):
        assert session.verdict(action_id=f"a{number}")["verdict"] == "allowed"
    assert session.verdict(action_id="first")["duplicate_of"] is not None
    assert session.verdict(action_id="a7")["blockReason"] == "session_capacity"


def test_an_agent_that_nobody_registered_is_answered_each_time_and_remembered_never() -> None:
    session = Session()
    for _ in range(3):
        verdict = session.verdict(agent_id="nobody", mode="standard")
        assert (verdict["verdict"], verdict["duplicate_of"]) == ("needs_human", None)
    assert [one.agents for one in session.state.accounts.values()] == [{}]


def test_ids_of_a_sibling_are_its_own() -> None:
    session = Session()
    session.propose(agent_id="chief")
    assert session.verdict()["blockReason"] is None
    assert session.verdict()["duplicate_of"] is not None
    assert (session.rows, session.actions) == (2, 2)


def test_a_session_that_is_full_forgets_what_signed_outcomes_have_settled_before_it_denies() -> None:
    """Mend 4: fold, then deny with the reason."""
    session = Session()
    for number in range(8):
        session.propose(action_id=f"a{number}")
        if number == 3:
            session.report_signed(action_id="a3", rows_affected=1)
    assert session.verdict(action_id="a8")["verdict"] == "allowed"
    assert session.verdict(action_id="a9")["blockReason"] == "session_capacity"
    assert session.rows == 9
