"""A session changes by events: an input's view reads what it changed, and the session then says the same."""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.foundation.limits import SessionLimits
from sluice.core.state.open_memory import OpenMemory
from sluice.core.state.recent_retrieval import RecentRetrieval, item_mark
from sluice.core.state.remembered import TIMED, UNTIMED, GateMemory, RecentAction, RecentWrite
from sluice.core.state.session import (
    PAGE,
    Counted,
    EarlyOutcome,
    EntryKept,
    Moved,
    Remembered,
    SessionState,
    Who,
    session_key,
)
from sluice.core.state.session_view import SessionView
from tests.unit.core.scene import LIMITS, Session, point

TIGHT = SessionLimits(
    action_window_ms=60,
    idle_timeout_ms=100,
    max_recent_actions=4,
    max_early_outcomes=3,
    max_recent_writes=3,
    max_known_sources=2,
    max_recent_retrievals=2,
    max_recent_items=3,
    max_state_bytes=4_000,
)
OWNERS = [Who("acme", "operator"), Who("acme", "chief"), Who("globex", "operator")]
NAMES = [f"n{number}" for number in range(6)]


class Acting(NamedTuple):
    """One input's step: whose, on which name, and the place of the input."""

    view: SessionView
    owner: Who
    name: str
    place: int

    def propose(self) -> None:
        view = self.view
        if view.has_room(self.owner):
            view.count(self.owner.tenant, 3, 1)
            seen = RecentAction("d", self.place, view.now, "ALLOW", 3, 1, False, 0, 30)
            view.remember(self.owner, self.name, seen)

    def settle(self) -> None:
        known = self.view.action(self.owner, self.name)
        if known is not None:
            self.view.remember(self.owner, self.name, known._replace(signed=True, disputed=False))

    def dispute(self) -> None:
        known = self.view.action(self.owner, self.name)
        if known is not None:
            self.view.remember(self.owner, self.name, known._replace(disputed=True))

    def write(self) -> None:
        if self.view.has_room_for_write(self.owner):
            seen = RecentWrite("d", self.place, self.view.now, "allow", None, 0.5)
            self.view.remember_write(self.owner, self.name, seen)

    def source(self) -> None:
        self.view.remember_source(self.owner, self.name, "user", self.view.now)

    def retrieve(self) -> None:
        marks = item_mark(self.name) + item_mark("other")
        retrieval = RecentRetrieval("sandbox", marks, self.view.now, self.place)
        self.view.remember_retrieval(self.owner, self.name, retrieval)

    def flag(self) -> None:
        self.view.remember_flags(self.owner, {self.name: ["stale"]})

    def read(self) -> None:
        self.view.remember_read(self.owner, "external", self.name)

    def gate(self) -> None:
        self.view.remember_for_gate(self.owner, self.name, GateMemory(self.view.now + 50, [self.name]))

    def forget_for_gate(self) -> None:
        self.view.remember_for_gate(self.owner, self.name, None)

    def wait(self) -> None:
        origin = ["t", 0, self.place, self.view.now, "d"]
        self.view.wait(EarlyOutcome(self.name, "acme", self.view.now, 2, False, "ep", origin, None, None))

    def answer(self) -> None:
        for one in self.view.early[:1]:
            self.view.answer(one)


ACTS = [one for name, one in vars(Acting).items() if isinstance(one, FunctionType) and name[0] != "_"]
ACTS = [one for one in ACTS if one.__module__ == __name__]
STEPS = st.tuples(st.sampled_from(ACTS), st.sampled_from(OWNERS), st.sampled_from(NAMES))
INPUTS = st.lists(st.tuples(st.integers(0, 70), st.lists(STEPS, max_size=4)), max_size=12)


def read_text(view: SessionView) -> dict[str, Any]:
    """What a view answers of every owner and name."""
    entries = {
        (owner, table, name): view.entry(owner, table, name)
        for owner in OWNERS
        for table in (*TIMED, *UNTIMED)
        for name in (*NAMES, "external", "*")
    }
    room = [(view.has_room(owner), view.has_room_for_write(owner)) for owner in OWNERS]
    return {"entries": entries, "early": view.early, "room": room}


def orders(state: SessionState) -> list[Any]:
    """The names of everything that has an order."""
    memories = [one for account in state.accounts.values() for one in account.agents.values()]
    tables = [[*getattr(one, table)] for one in memories for table in (*TIMED, *UNTIMED)]
    return [[*state.accounts], [[*one.agents] for one in state.accounts.values()], [*state.early], tables]


@settings(max_examples=100, deadline=None)
@given(INPUTS)
def test_what_a_view_reads_back_is_what_its_events_leave(inputs: list[Any]) -> None:
    """Over inputs in a row: nothing changes before the events are applied; then a new view of the same time
    reads what this one did, and another owner reads the same state from what each input wrote."""
    state, now, place = SessionState(session_key("s")), 1_000, 0
    table: dict[bytes, bytes] = {}
    for wait, steps in inputs:
        now += wait
        before = state.entries()
        view = SessionView(state, TIGHT, now)
        for step, owner, name in steps:
            place += 1
            step(Acting(view, owner, name, place))
        changes, due = view.changes(), read_text(view)
        assert state.entries() == before
        state.apply(changes)
        again = SessionView(state, TIGHT, now)
        assert not again.refused
        opened_at = now if state.gone else state.opened_at
        assert again.changes() == (Moved(opened_at, now, state.due_ms),), "nothing is left to expire"
        assert read_text(again) == due
        written = state.flush()
        table = {key: value for key, value in {**table, **written}.items() if value is not None}
        assert table == state.entries()
        taken_over = SessionState.read(state.key, table)
        assert orders(taken_over) == orders(state)
        assert taken_over.entries() == table
        state = taken_over if place % 2 else state
        for account in state.accounts.values():
            for memory in account.agents.values():
                assert not memory.is_over(now - TIGHT.action_window_ms)
                fresh = Remembered(**{one: getattr(memory, one) for one in (*TIMED, *UNTIMED)})
                assert (memory.size, memory.settled.keys()) == (fresh.size, fresh.settled.keys())


def test_an_input_makes_as_many_changes_in_a_large_session_as_in_a_small_one() -> None:
    session = Session(point(limits=SessionLimits(LIMITS.action_window_ms, LIMITS.idle_timeout_ms, 2_000, 8)))
    kinds = []
    for number in range(1_000):
        made = session.propose(action_id=f"a{number}").session
        kinds.append([type(one) for one in made])
    (memory,) = session.state.accounts["acme"].agents.values()
    assert len(memory.recent) == 1_000
    assert kinds[1:] == [[Counted, EntryKept, Moved]] * 999


@pytest.mark.parametrize("few", [2, 31])
def test_an_input_writes_as_much_in_a_large_session_as_in_a_small_one(few: int) -> None:
    """Its head, and the page of the entry: not the other thousand."""
    limits = SessionLimits(LIMITS.action_window_ms, LIMITS.idle_timeout_ms, 2_000, 8)
    sizes = {}
    for remembered in (few, 1_000):
        session = Session(point(limits=limits))
        for number in range(remembered):
            session.propose(action_id=f"a{number:04}")
        session.state.flush()
        written = []
        for number in range(PAGE):
            session.propose(action_id=f"b{number:04}")
            written.append(session.state.flush())
        assert max(map(len, written)) <= 2
        sizes[remembered] = sum(len(value or b"") for one in written for value in one.values())
    assert sizes[1_000] < 1.5 * sizes[few]
    assert sizes[1_000] < PAGE * 1_500


def test_an_action_that_the_same_input_settled_makes_room() -> None:
    """Two agents more share the bytes, and a third action has room only without the settled one."""
    state = SessionState(session_key("s"))
    view = SessionView(state, TIGHT, 1_000)
    for place, (owner, name) in enumerate(
        [(OWNERS[0], "n0"), (OWNERS[0], "n2"), *((one, "n0") for one in OWNERS[1:])]
    ):
        Acting(view, owner, name, place).propose()
    state.apply(view.changes())
    view = SessionView(state, TIGHT, 1_000)
    acting = Acting(view, OWNERS[0], "n1", 5)
    acting.propose()
    assert not view.has_room(OWNERS[0])
    acting._replace(name="n0").settle()
    assert view.has_room(OWNERS[0])


def test_a_session_that_ends_leaves_nothing_in_the_table() -> None:
    session = Session(point(limits=SessionLimits(LIMITS.action_window_ms, LIMITS.idle_timeout_ms, 2_000, 8)))
    for number in range(40):
        session.propose(action_id=f"a{number}")
    table = session.state.flush()
    assert len(table) == 1 + 39 // PAGE
    session.now += LIMITS.idle_timeout_ms
    ended = session.point.expire(session.state.key, session.state, session.now)
    assert ended is not None
    session.state.apply(ended.session)
    assert session.state.flush() == dict.fromkeys(table)


def test_an_agents_memory_is_opened_and_changed_without_a_copy() -> None:
    """The tables of the session are read where they are; what is put is beside them until it is applied."""
    stored = Remembered(
        {f"a{number}": ("d", number, number, "ALLOW", 1, 1, False, 0, 10) for number in range(9)}
    )
    opened = OpenMemory(stored, OWNERS[0], [], 3)
    recent = opened.table("recent")
    assert [*recent] == [f"a{number}" for number in range(4, 9)]
    recent.drop("a6")
    recent.put("a5", ("d", 0, 5, "BLOCK", 0, 0, False, 0, 10))
    recent.put("a6", ("d", 0, 9, "ALLOW", 1, 1, False, 0, 10))
    assert [*recent] == ["a4", "a5", "a7", "a8", "a6"]
    assert (len(recent), recent.get("a5")[3], recent.get("a1")) == (5, "BLOCK", None)
    assert opened.size == stored.size - 4 * 384
    assert len(stored.recent) == 9
