"""Timers wait for what has come, but not for what will never be delivered, nor for what comes meanwhile."""

from __future__ import annotations

from sluice.stream.engine.intake import Backlog

PATIENCE = 1000


def test_what_is_undecided_is_waited_for_as_long_as_it_moves() -> None:
    backlog = Backlog(PATIENCE)
    found = [backlog.find_decided_until(position, 10, position * 900) for position in range(8, 11)]
    assert found == [None, None, 8 * 900]


def test_nothing_is_waited_for_where_the_topic_is_empty_or_all_of_it_is_decided() -> None:
    assert Backlog(PATIENCE).find_decided_until(0, 0, 5) == 5
    assert Backlog(PATIENCE).find_decided_until(10, 10, 5) == 5


def test_what_comes_while_it_waits_is_waited_for_the_next_time() -> None:
    """Steady traffic holds nothing up: what was there when something fell due is enough for it."""
    backlog = Backlog(PATIENCE)
    assert backlog.find_decided_until(9, 10, 100) is None
    assert backlog.find_decided_until(10, 20, 200) == 100
    assert backlog.find_decided_until(10, 20, 300) is None
    assert backlog.find_decided_until(20, 30, 400) == 300


def test_an_end_that_no_record_reaches_is_given_up_once() -> None:
    """Behind it are commit markers, or records that were rolled back or deleted."""
    backlog = Backlog(PATIENCE)
    assert backlog.find_decided_until(9, 10, 5_000) is None
    assert backlog.find_decided_until(9, 10, 5_000 + PATIENCE - 1) is None
    assert backlog.find_decided_until(9, 10, 5_000 + PATIENCE) == 5_000
    assert backlog.find_decided_until(9, 10, 9_000) == 9_000
    assert backlog.find_decided_until(9, 12, 9_500) is None
