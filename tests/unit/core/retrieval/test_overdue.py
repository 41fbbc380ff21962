"""Flag-only that outlives its window is overdue from exactly its end on, once for each whole window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.clock import read_milliseconds
from sluice.core.retrieval.alarms import DAY_MS, list_overdue
from tests.unit.core.retrieval.quality_scene import NOTE, SINCE, flag_only, quality_bundle

START = read_milliseconds(SINCE)
WINDOW = 14 * DAY_MS
WAITING = quality_bundle(rollout=flag_only(NOTE))


def test_it_is_overdue_from_the_end_of_its_window_on() -> None:
    assert list_overdue(WAITING, START + WINDOW - 1) == ()
    (one,) = list_overdue(WAITING, START + WINDOW)
    assert one == (NOTE, START, START + WINDOW, 1, START + WINDOW)


def test_each_further_window_counts_once() -> None:
    ordinals = [list_overdue(WAITING, START + number * WINDOW + DAY_MS)[0].ordinal for number in (1, 2, 3)]
    assert ordinals == [1, 2, 3]


def test_an_enforced_class_is_never_overdue() -> None:
    assert list_overdue(quality_bundle(), START + 100 * WINDOW) == ()


def test_the_window_is_the_bundle_s_own() -> None:
    short = quality_bundle(rollout=flag_only(NOTE), rollout_window_days=1)
    assert list_overdue(short, START + DAY_MS)[0].overdue_since_ms == START + DAY_MS


@given(st.integers(-WINDOW, 20 * WINDOW), st.integers(0, WINDOW))
def test_it_never_gets_less_overdue(at: int, later: int) -> None:
    before, after = (
        sum(one.ordinal for one in list_overdue(WAITING, START + now)) for now in (at, at + later)
    )
    assert before <= after <= before + 1
