"""Timers wait for what has come, but not for what comes meanwhile."""

from __future__ import annotations

from sluice.stream.engine.intake import Backlog


def test_what_is_undecided_is_waited_for() -> None:
    backlog = Backlog()
    until = [backlog.find_decided_until(passed, 10, passed * 900) for passed in range(8, 11)]
    assert until == [None, None, 8 * 900]


def test_nothing_is_waited_for_where_the_topic_is_empty_or_all_of_it_is_decided() -> None:
    assert Backlog().find_decided_until(0, 0, 5) == 5
    assert Backlog().find_decided_until(10, 10, 5) == 5


def test_what_comes_while_it_waits_is_waited_for_the_next_time() -> None:
    """Steady traffic holds nothing up: what was there when something fell due is enough for it."""
    backlog = Backlog()
    assert backlog.find_decided_until(9, 10, 100) is None
    assert backlog.find_decided_until(10, 20, 200) == 100
    assert backlog.find_decided_until(10, 20, 300) is None
    assert backlog.find_decided_until(20, 30, 400) == 300
