"""RFC 3339 date-times with any offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.metadata.moments import parse_instant

offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=offsets))
def test_what_the_calendar_writes_is_read_back(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_instant(moment.isoformat()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1970-01-01T01:00:00.0019+01:00", 1),
        ("1990-12-31T23:59:60Z", 662_688_000_000),  # RFC 3339, section 5.8: a leap second
        ("1990-12-31T15:59:60-08:00", 662_688_000_000),
        ("1970-01-01T00:00:00." + "1" * 400 + "Z", 111),
    ],
)
def test_what_the_rfc_allows(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01",
        "1970-01-01T00:00:00",
        "1970-01-01 00:00:00Z",
        "1970-01-01T00:00Z",
        "1970-1-1T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:61Z",
        "1970-01-01T00:00:60Z",
        "1970-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+01:60",
        "1970-01-01T00:00:00+0100",
        "1970-01-01T00:00:00Z\n",
        "\u0661970-01-01T00:00:00Z",
    ],
)
def test_what_it_does_not(text: str) -> None:
    assert parse_instant(text) is None


@given(st.text(alphabet="0123456789-:TZ+.", max_size=40))
def test_no_text_makes_it_raise(text: str) -> None:
    assert parse_instant(text) is None or "T" in text
