"""What time does to a session: a timer and the next input do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.core.scene import LIMITS, MINUTE, START, Session, action, kinds, only

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision

KEY = b"s:s-1"
DAY = LIMITS.idle_timeout_ms
WINDOW = LIMITS.action_window_ms


def expire(session: Session, now: int) -> Decision | None:
    decision = session.point.expire(KEY, session.state, now)
    session.state.apply(decision.session if decision else ())
    return decision


def test_nothing_is_due_before_its_time() -> None:
    session = Session()
    session.propose()
    assert session.state.due_ms == START + DAY
    assert expire(session, START + DAY - 1) is None


def test_an_idle_session_folds_with_its_totals_and_is_gone() -> None:
    session = Session()
    session.propose(rows_affected=5)
    session.now += MINUTE
    session.propose(agent_id="other", rows_affected=2, action_id="act-2")
    decision = expire(session, START + MINUTE + DAY)
    assert decision is not None
    folded = only(decision, "SessionFolded")
    assert folded["tenants"] == {
        "acme": {"aggregateRowsAffected": 5, "aggregateActionCount": 1},
        "globex": {"aggregateRowsAffected": 2, "aggregateActionCount": 1},
    }
    assert (folded["opened_at"], folded["last_at"]) == (
        "2025-11-21T13:00:00.000Z",
        "2025-11-21T13:01:00.000Z",
    )
    assert folded["input"] is None
    assert session.state.gone


def test_an_early_outcome_is_due_when_its_window_ends() -> None:
    session = Session()
    session.propose()
    session.now += MINUTE
    session.report(action_id="never")
    assert session.state.due_ms == START + MINUTE + WINDOW
    assert expire(session, START + MINUTE + WINDOW - 1) is None
    decision = expire(session, START + MINUTE + WINDOW)
    assert decision is not None
    assert kinds(decision) == ["InputRefused"]
    assert session.state.due_ms == START + MINUTE + DAY


def test_an_outcome_of_an_unknown_session_leaves_nothing_behind() -> None:
    session = Session()
    session.report()
    assert expire(session, START + WINDOW) is not None
    assert session.state.gone


@pytest.mark.parametrize("waited", [WINDOW - 1, WINDOW, DAY - 1, DAY, 3 * DAY])
def test_a_timer_and_the_next_input_find_the_same(waited: int) -> None:
    timed, late = Session(), Session()
    for session in (timed, late):
        session.propose(rows_affected=5)
        session.report(action_id="never")
        session.now += waited
    early = expire(timed, timed.now)
    by_timer = [one.body for one in early.records] if early else []
    after_timer = timed.propose(rows_affected=5)
    by_input = late.propose(rows_affected=5)
    assert [one.body for one in by_input.records] == by_timer + [one.body for one in after_timer.records]
    assert timed.state.entries() == late.state.entries()


def test_what_was_still_open_is_answered_before_the_session_folds() -> None:
    session = Session()
    session.propose()
    session.report(action_id="never")
    decision = expire(session, START + DAY)
    assert decision is not None
    assert kinds(decision) == ["InputRefused", "SessionFolded"]


def test_a_folded_session_starts_anew() -> None:
    session = Session()
    session.propose(rows_affected=5)
    session.now += DAY
    decision = session.evaluate("gate.actions.proposed", action(rows_affected=5))
    assert kinds(decision) == ["SessionFolded", "Verdict"]
    assert decision.records[1].body["session"]["before"]["aggregateRowsAffected"] == 0
    session.state.apply(decision.session)
    assert session.state.opened_at == session.now


def test_a_state_is_expired_under_its_own_key_only() -> None:
    with pytest.raises(ValueError, match="s:other"):
        Session().point.expire(b"s:other", Session().state, START)
