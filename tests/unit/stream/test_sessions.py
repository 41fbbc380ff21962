"""The sessions of a partition: what is staged is seen at once, and timers find what is due."""

from __future__ import annotations

from sluice.core.state.session import Counted, Moved, Restarted, SessionState
from sluice.stream.engine.sessions import Sessions

KEY = b"s:one"


def change(state: SessionState, due_ms: int, rows: int = 1) -> SessionState:
    state.apply([Counted("t", rows, 1), Moved(1, 1, due_ms)])
    return state


def due(sessions: Sessions, now_ms: int, busy: tuple[bytes, ...] = ()) -> list[bytes]:
    return list(sessions.due(now_ms, busy, limit=100))


def test_a_staged_state_is_seen_before_it_is_flushed_and_after_it() -> None:
    table: dict[bytes, bytes] = {}
    sessions = Sessions(table, max_hot=0)
    sessions.touch(KEY, change(sessions.load(KEY), 50, rows=7), None)
    assert sessions.load(KEY).accounts["t"].rows == 7
    assert [key for key, _ in sessions.flush()] == [KEY]
    assert sessions.load(KEY).accounts["t"].rows == 7
    assert SessionState.read(KEY, table).accounts["t"].rows == 7


def test_a_session_that_is_gone_is_deleted_from_table_and_changelog() -> None:
    sessions = Sessions(change(SessionState(KEY), 50).entries(), max_hot=4)
    state = sessions.load(KEY)
    state.apply([Restarted(), Moved(0, 0, 9)])
    sessions.touch(KEY, state, None)
    assert sessions.flush() == [(KEY, None)]
    assert not sessions.is_known(KEY)


def test_a_session_is_due_at_its_newest_time_only() -> None:
    sessions = Sessions({}, max_hot=4)
    state = change(sessions.load(KEY), 50)
    sessions.touch(KEY, state, None)
    sessions.touch(KEY, change(state, 90), 50)
    assert due(sessions, 60) == []
    assert due(sessions, 90) == [KEY]


def test_a_busy_session_comes_up_again() -> None:
    sessions = Sessions(change(SessionState(KEY), 50).entries(), max_hot=4)
    assert due(sessions, 60, busy=(KEY,)) == []
    assert due(sessions, 61) == [KEY]


def test_a_due_time_that_moves_back_and_forth_does_not_pile_up() -> None:
    sessions = Sessions({}, max_hot=4)
    state = change(sessions.load(KEY), 1000)
    sessions.touch(KEY, state, None)
    for _ in range(50):
        sessions.touch(KEY, change(state, 10), 1000)
        sessions.touch(KEY, change(state, 1000), 10)
    assert due(sessions, 10) == []
    assert len(sessions) <= 2


def test_the_size_of_the_state_is_that_of_its_keys_and_values() -> None:
    table = {b"a": b"1234", b"b": b"12"}
    sessions = Sessions(table, 1)
    assert sessions.bytes == 8
    assert sessions.flush([(b"a", b"1"), (b"c", b"123"), (b"b", None), (b"unknown", None)])[2] == (b"b", None)
    assert table == {b"a": b"1", b"c": b"123"}
    assert sessions.bytes == sum(len(key) + len(value) for key, value in table.items())
