"""Mend 22.20: a page's range of time, and its bars: each event is in one bar, and no bar is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages.forms import read_moment, read_number
from sluice.gateway.pages.time_range import HEIGHT, MOST_BARS, TimeRange, count_over_time

NOW_MS = read_milliseconds("2026-11-24T10:00:30.000Z")
HOUR_MS = 3_600_000
NAMES = ("allowed", "denied")


def test_a_range_is_the_last_hour_day_or_week_or_what_was_written() -> None:
    assert TimeRange.read({"last": "hour"}, NOW_MS) == ("hour", NOW_MS - HOUR_MS, NOW_MS)
    assert TimeRange.read({}, NOW_MS) == TimeRange.read({"last": "year"}, NOW_MS)
    assert TimeRange.read({"last": "hour"}, NOW_MS).step == "5 min"
    written = TimeRange.read({"from": "2026-11-24 08:00", "to": "2026-11-24T10:00:00+01:00"}, NOW_MS)
    assert (written.last, written.until_ms - written.since_ms) == ("", HOUR_MS)
    assert TimeRange.read({"to": "2026-11-24 10:00"}, NOW_MS).since_ms == written.until_ms - 23 * HOUR_MS
    assert TimeRange.read({"from": "2026-11-24 08:00"}, NOW_MS).until_ms == NOW_MS


@pytest.mark.parametrize(
    "given_",
    [{"from": "yesterday"}, {"from": "2026-11-24 10:00", "to": "2026-11-24 10:00"}, {"from": "1900-01-01"}],
)
def test_a_range_that_is_none_is_refused(given_: dict[str, str]) -> None:
    with pytest.raises(HttpError):
        TimeRange.read(given_, NOW_MS)


@pytest.mark.parametrize(
    "text", ["1960-01-01", "9999-12-31T23:59-23:59", "0001-01-01T00:00+23:59", "x" * 5000]
)
def test_a_time_that_no_page_can_show_is_refused(text: str) -> None:
    """Mend 22.4: a typed time ends in a sentence, on each page that takes one."""
    with pytest.raises(HttpError) as refused:
        read_moment(text)
    assert refused.value.status == 400
    with pytest.raises(HttpError):
        TimeRange.read({"to": text}, NOW_MS)


def test_the_first_and_the_last_time_are_taken() -> None:
    assert read_moment("1970-01-01") == 0
    last = read_moment("9999-12-31T23:59:59.999+00:00")
    assert last is not None
    assert rfc3339(last) == "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("20", 20),
        ("007", 7),
        ("000000001999999999999", 0),
        ("9" * 5000, 0),
        ("-1", 0),
        ("\u0663", 0),
        ("", 0),
    ],
)
def test_a_typed_number_is_short(text: str, number: int) -> None:
    """Mend 22.4: of the days and the uses of a grant."""
    assert read_number(text) == number


@given(
    length_ms=st.integers(1, 400 * 24 * HOUR_MS),
    parts=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(NAMES)), max_size=50),
)
def test_every_event_of_the_range_is_in_exactly_one_bar(
    length_ms: int, parts: list[tuple[float, str]]
) -> None:
    shown = TimeRange("", NOW_MS - length_ms, NOW_MS)
    events = [(shown.since_ms + int(part * length_ms), name) for part, name in parts]
    chart = count_over_time("Decisions", NAMES, events, shown)
    assert chart.totals == [sum(name == one for _, name in events) for one in NAMES]
    assert len(chart.rows) <= MOST_BARS + 1
    assert [at_ms for at_ms, _ in chart.rows] == [
        chart.rows[0][0] + place * shown.step_ms for place in range(len(chart.rows))
    ]
    assert all(0 <= one.y <= HEIGHT and one.y + one.height <= HEIGHT + 0.1 for one in chart.boxes)


def test_what_is_before_the_range_or_of_another_name_counts_nowhere() -> None:
    shown = TimeRange("hour", NOW_MS - HOUR_MS, NOW_MS)
    events = [(shown.since_ms - 1, "allowed"), (NOW_MS - 1, "other"), (NOW_MS + HOUR_MS, "denied")]
    chart = count_over_time("Decisions", NAMES, events, shown)
    assert (chart.totals, chart.most) == ([0, 1], 1)
