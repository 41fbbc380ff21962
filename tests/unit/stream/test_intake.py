"""Positions of an input topic: nothing is decided twice, nothing is skipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.stream.engine.intake import Intake, OffsetGap


def test_a_delivered_offset_is_admitted_once() -> None:
    intake = Intake("t", 5)
    assert intake.admit(5)
    assert not intake.admit(5)


def test_what_the_previous_owner_left_open_is_decided_again_and_the_rest_is_not() -> None:
    intake = Intake("t", 10, pending=(7, 9))
    assert [offset for offset in range(6, 12) if intake.admit(offset)] == [7, 9, 10, 11]


def test_the_group_resumes_at_the_first_open_offset() -> None:
    intake = Intake("t", 10, pending=(7, 9))
    intake.admit(7)
    assert intake.resume_at == 7
    intake.done(7)
    assert intake.resume_at == 9


def test_a_skipped_offset_stops_a_worker_whose_producers_leave_no_gaps() -> None:
    intake = Intake("t", 5, halt_on_gap=True)
    intake.admit(5)
    with pytest.raises(OffsetGap, match="expected offset 6, got 8"):
        intake.admit(8)


def test_a_skipped_offset_is_counted_where_transaction_markers_explain_it() -> None:
    intake = Intake("t", 5)
    assert intake.admit(8)
    assert (intake.gaps, intake.next, intake.resume_at) == (1, 9, 8)


def test_an_open_offset_that_retention_removed_does_not_hold_the_position_back() -> None:
    intake = Intake("t", 10, pending=(7, 9))
    assert intake.admit(12)
    intake.done(12)
    assert intake.resume_at == 13


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_every_offset_is_decided_exactly_once_across_takeovers(steps: list[tuple[bool, int]]) -> None:
    decided: list[int] = []
    intake = Intake("t", halt_on_gap=True)
    cursor = 0
    waiting: list[int] = []
    for takeover, pick in steps:
        if takeover:
            intake = Intake("t", intake.next, tuple(intake.pending), halt_on_gap=True)
            cursor, waiting = max(0, intake.resume_at - pick), []
        if intake.admit(cursor):
            waiting.append(cursor)
        cursor += 1
        if waiting and pick > 1:
            done = waiting.pop(pick % len(waiting))
            intake.done(done)
            decided.append(done)
    assert len(decided) == len(set(decided))
    assert set(decided) | set(intake.pending) == set(range(intake.next))
