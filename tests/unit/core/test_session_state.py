"""The state of a session, as bytes and back, and how a transition enters it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.core.session import (
    NEVER_DUE_MS,
    Account,
    EarlyOutcome,
    RecentAction,
    SessionState,
    Transition,
    due_ms,
    session_key,
)
from tests.unit.core.scene import START, Session, action

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ROWS = st.integers(0, 10) | st.integers(0, 2**80)
TIMES = st.integers(0, NEVER_DUE_MS)
RECENT = st.builds(
    RecentAction,
    HEX,
    st.integers(0, 2**40),
    TIMES,
    st.sampled_from(["ALLOW", "ALLOW/BLOCK"]),
    ROWS,
    st.integers(0, 3),
    st.booleans(),
    ROWS,
)
ORIGIN = st.tuples(IDS, st.integers(0, 99), st.integers(0, 2**40), TIMES, HEX).map(list)
EARLY = st.builds(EarlyOutcome, IDS, st.none() | IDS, TIMES, ROWS, st.booleans(), IDS, ORIGIN)
ACCOUNT = st.builds(Account, ROWS, st.integers(0, 99), st.dictionaries(IDS, RECENT.map(tuple), max_size=3))
TRANSITIONS = st.builds(
    Transition,
    st.booleans(),
    st.dictionaries(IDS, ACCOUNT, max_size=3),
    st.lists(EARLY, max_size=3),
    TIMES,
    TIMES,
    TIMES,
)


def everything(state: SessionState) -> Any:
    accounts = {
        tenant: (one.rows, one.actions, {name: one.action(name) for name in one.recent})
        for tenant, one in state.accounts.items()
    }
    orders = [list(one.recent) for one in state.accounts.values()]
    return state.key, accounts, orders, state.early, state.opened_at, state.last_at, state.due_ms


@given(TRANSITIONS, IDS)
def test_a_state_survives_its_bytes(transition: Transition, session_id: str) -> None:
    state = SessionState(session_key(session_id))
    state.apply(transition)
    stored = state.encode()
    again = SessionState.decode(state.key, stored)
    assert everything(again) == everything(state)
    assert again.session_id == session_id
    assert again.encode() == stored


@given(TRANSITIONS)
def test_the_due_time_is_read_from_a_fixed_place(transition: Transition) -> None:
    state = SessionState(b"s:x")
    state.apply(transition)
    stored = state.encode()
    assert stored.startswith(b'{"due":')
    assert stored[20:21] == b","
    assert due_ms(stored) == state.due_ms


def test_a_session_with_one_action_takes_less_than_300_bytes() -> None:
    session = Session()
    session.propose(action_id="action-000001")
    assert len(session.state.encode()) < 300


def test_evaluating_changes_nothing_until_the_transition_is_applied() -> None:
    session = Session()
    session.propose()
    session.report(action_id="not-yet", rows_affected=5)
    before = copy.deepcopy(everything(session.state))
    for record in (action(action_id="act-2"), action(action_id="not-yet"), action(rows_affected=9)):
        session.evaluate("gate.actions.proposed", record)
        assert everything(session.state) == before


def test_a_new_session_is_gone_until_something_is_kept() -> None:
    session = Session()
    assert session.state.gone
    session.state.apply(None)
    assert session.state.gone
    session.propose(toolName="erase")
    assert not session.state.gone


def test_a_restart_between_two_inputs_changes_no_decision() -> None:
    straight, restarted = Session(), Session()
    for fields in ({}, {}, {"rows_affected": 2}, {"action_id": "act-2", "rows_affected": 2**70}):
        restarted.state = SessionState.decode(b"s:s-1", restarted.state.encode())
        assert restarted.propose(**fields).records == straight.propose(**fields).records
    assert straight.now == START
