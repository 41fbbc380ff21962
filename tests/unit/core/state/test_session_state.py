"""The state of a session, as bytes and back, and how events change it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.state.remembered import RecentAction, read_recent_action
from sluice.core.state.reservations import EARLY_BYTES
from sluice.core.state.session import (
    NEVER_DUE_MS,
    Counted,
    DisputeOpened,
    EarlyOutcome,
    EntryKept,
    Moved,
    OutcomeAnswered,
    OutcomeWaits,
    Remembered,
    SessionState,
    due_ms,
    session_key,
)
from sluice.core.state.session_view import SHARES_IN_ALL
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ActionOutcome, ProposedAction
from sluice_topics.records.base import MAX_COUNT
from tests.unit.core.scene import LIMITS, MINUTE, START, Session, action, outcome, point, read_stored_bytes

if TYPE_CHECKING:
    from sluice.core.state.remembered import Table
    from sluice.core.state.session import SessionChange

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
    st.integers(1, 2**80),
    st.booleans(),
    st.booleans(),
)
ORIGIN = st.tuples(IDS, st.integers(0, 99), st.integers(0, 2**40), TIMES, HEX).map(list)
UNBOUND = {"offset": st.none(), "digest": st.none()}
UNSIGNED = st.builds(EarlyOutcome, IDS, st.none() | IDS, TIMES, ROWS, st.just(False), IDS, ORIGIN, **UNBOUND)
SIGNED = st.builds(EarlyOutcome, IDS, IDS, TIMES, ROWS, st.just(True), IDS, ORIGIN, st.integers(0, 9), HEX)
EARLY = UNSIGNED | SIGNED
STORED = RECENT.map(RecentAction.encode)
GATES = st.tuples(TIMES, st.dictionaries(IDS, st.lists(TIMES, max_size=2)), st.integers(0, 99)).map(list)
ENTRIES: dict[Table, st.SearchStrategy[Any]] = {"recent": STORED, "gates": GATES}
DISPUTES = st.dictionaries(st.integers(0, 99).map(str), st.tuples(IDS, IDS, STORED), max_size=2)


@st.composite
def states(draw: st.DrawFn) -> SessionState:
    """Of any tenants and agents, as events make them."""
    state = SessionState(session_key(draw(IDS)))
    for tenant in draw(st.sets(IDS, min_size=1, max_size=3)):
        changes: list[SessionChange] = [Counted(tenant, draw(ROWS), draw(st.integers(0, 99)))]
        for agent in draw(st.sets(IDS, max_size=3)):
            for table, entries in ENTRIES.items():
                for name, stored in draw(st.dictionaries(IDS, entries, max_size=3)).items():
                    changes.append(EntryKept(tenant, agent, table, name, stored))
        for offset, (name, agent, stored) in draw(DISPUTES).items():
            changes.append(DisputeOpened(tenant, offset, (name, agent, *stored)))
        state.apply(changes)
    for place, one in enumerate(draw(st.lists(EARLY, max_size=3))):
        state.apply([OutcomeWaits(one._replace(origin=[*one.origin[:2], place, *one.origin[3:]]))])
    state.apply([Moved(*(draw(TIMES) for _ in range(3)))])
    return state


def actions(known: Remembered) -> list[RecentAction]:
    return [read_recent_action(stored) for stored in known.recent.values()]


def everything(state: SessionState) -> Any:
    accounts = {
        tenant: (one.rows, one.actions, {agent: actions(known) for agent, known in one.agents.items()})
        for tenant, one in state.accounts.items()
    }
    orders = [list(known.recent) for one in state.accounts.values() for known in one.agents.values()]
    return state.key, accounts, orders, state.early, state.opened_at, state.last_at, state.due_ms


@given(states())
def test_a_state_survives_its_bytes(state: SessionState) -> None:
    stored = state.entries()
    again = SessionState.read(state.key, stored)
    assert everything(again) == everything(state)
    assert again.session_id == state.session_id
    assert again.entries() == stored


@given(states())
def test_the_due_time_is_read_from_a_fixed_place(state: SessionState) -> None:
    stored = state.entries()[state.key]
    assert stored.startswith(b'{"due":')
    assert stored[20:21] == b","
    assert due_ms(stored) == state.due_ms


def test_a_session_with_one_action_takes_less_than_300_bytes() -> None:
    session = Session()
    session.propose(action_id="action-000001")
    assert read_stored_bytes(session.state) < 300


def test_evaluating_changes_nothing_until_the_events_are_applied() -> None:
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
    session.state.apply(())
    assert session.state.gone
    session.propose(toolName="erase")
    assert not session.state.gone


def test_a_restart_between_two_inputs_changes_no_decision() -> None:
    straight, restarted = Session(), Session()
    for fields in ({}, {}, {"rows_affected": 2}, {"action_id": "act-2", "rows_affected": 2**70}):
        restarted.state = SessionState.read(b"s:s-1", restarted.state.entries())
        assert restarted.propose(**fields).records == straight.propose(**fields).records
    assert straight.now == START


def test_what_is_remembered_takes_no_more_bytes_than_it_is_reckoned_at() -> None:
    """Mend 4: every id and count at its longest, as far as an input may choose it."""
    session = Session(point(limits=replace(LIMITS, max_recent_actions=64, max_early_outcomes=64)))
    for number in range(40):
        name = f"\x01{number}" * 60
        session.propose(action_id=name, rows_affected=MAX_COUNT, mode="standard", toolName="erase")
        session.report(action_id=name, rows_affected=MAX_COUNT)
        session.report(action_id=f"never {name}", rows_affected=MAX_COUNT)
    (account,) = session.state.accounts.values()
    assert len(account.agents["operator"].recent) == 40
    assert read_stored_bytes(session.state) <= account.size + EARLY_BYTES * len(session.state.early) + 512
    session.state.apply([OutcomeAnswered(place) for place in [*session.state.early]])
    assert read_stored_bytes(session.state) <= account.size + 512


def test_a_session_is_denied_for_want_of_bytes_and_several_agents_share_them() -> None:
    """Mend 4: fold, then deny with the reason; of two agents each has its half, whatever the other holds."""
    session = Session(point(limits=replace(LIMITS, max_recent_actions=10_000, max_state_bytes=16_384)))
    alone = [session.verdict(action_id=f"a{number}")["blockReason"] for number in range(100)]
    assert alone.count(None) == 42
    assert set(alone[42:]) == {"session_capacity"}
    others = [session.verdict(action_id=f"b{number}", agent_id="chief") for number in range(100)]
    beside = [one["blockReason"] for one in others]
    assert beside.count(None) == 21
    assert read_stored_bytes(session.state) < SHARES_IN_ALL * 16_384
    session.now += 60 * MINUTE
    assert session.verdict(action_id="later")["verdict"] == "allowed"


@pytest.mark.parametrize("digits", [36, 37, 100, 999])
def test_a_count_has_a_bounded_number_of_digits(digits: int) -> None:
    """Mend 4: a longer one is a dead letter, so no session remembers or records it."""
    for model, fields in ((ProposedAction, action()), (ActionOutcome, outcome())):
        found = read(model, json.dumps(fields | {"rows_affected": 10**digits - 1}).encode())
        assert (found == Unreadable("invalid_value", "$.rows_affected", ANY)) is (digits > 36)
