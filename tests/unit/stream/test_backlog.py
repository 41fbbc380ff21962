"""Timers wait for what came before the takeover, but not for what will never be delivered."""

from __future__ import annotations

from app.stream.backlog import Backlog

PATIENCE = 1000


def test_what_is_undecided_is_waited_for_as_long_as_it_moves() -> None:
    backlog = Backlog(10, PATIENCE)
    assert [backlog.left(position, position * 900) for position in range(8, 11)] == [True, True, False]


def test_nothing_is_waited_for_where_the_topic_was_empty_or_all_of_it_is_decided() -> None:
    assert not Backlog(0, PATIENCE).left(0, 0)
    assert not Backlog(10, PATIENCE).left(10, 0)


def test_an_end_that_no_record_reaches_is_given_up() -> None:
    """Behind it are commit markers, or records that were rolled back or deleted."""
    backlog = Backlog(10, PATIENCE)
    assert backlog.left(9, 5_000)
    assert backlog.left(9, 5_000 + PATIENCE - 1)
    assert not backlog.left(9, 5_000 + PATIENCE)
    assert not backlog.left(9, 5_000 + PATIENCE + 1)
