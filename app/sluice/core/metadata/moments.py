"""Times as pipelines write them: RFC 3339, any offset. The ledger's own times are in
sluice/core/foundation/clock.py."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_DATE_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAP_SECOND = 60
_HOURS, _MINUTES = 24, 60
_DAY_MS = 86_400_000


def parse_instant(text: str) -> int | None:
    """Milliseconds since 1970 of an RFC 3339 date-time (section 5.6), fractions cut; None for any other text.

    A leap second counts as the next second. It is valid only at the end of a day in UTC.
    """
    read = _DATE_TIME.fullmatch(text)
    if read is None:
        return None
    year, month, day, hour, minute, second = map(int, read.groups()[:6])
    offset = _offset(*read.groups()[7:])
    leap = second == _LEAP_SECOND
    try:
        local = datetime(year, month, day, hour, minute, second - leap, tzinfo=UTC)
    except ValueError:
        return None
    if offset is None:
        return None
    ms = (local - _EPOCH - offset) // timedelta(milliseconds=1) + 1000 * leap
    fraction = int(((read.group(7) or "") + "000")[:3])
    return None if leap and ms % _DAY_MS else ms + fraction


def _offset(sign: str | None, hours: str | None, minutes: str | None) -> timedelta | None:
    """The offset to subtract from local time; None for an impossible one."""
    if sign is None or hours is None or minutes is None:
        return timedelta()
    if int(hours) >= _HOURS or int(minutes) >= _MINUTES:
        return None
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return -offset if sign == "-" else offset


MAX_TIME_CHARACTERS = 64
"""RFC 3339 does not limit fractions. Nanoseconds take 35 characters; real times need no more."""
_USUAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{3})?Z")
"""Hours to 23: whether `datetime` takes 24:00 depends on the version of Python."""
_MS = timedelta(milliseconds=1)


def parse_time(text: str) -> int | None:
    """Milliseconds since 1970 of an RFC 3339 date-time with an offset, None for any other text.

    Nearly all times of items have one form of RFC 3339, and a read may spend only microseconds on them.
    """
    if _USUAL.fullmatch(text) is None:
        return None if len(text) > MAX_TIME_CHARACTERS else parse_instant(text)
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // _MS
    except ValueError:
        return None
