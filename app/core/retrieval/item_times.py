"""Times of items. Nearly all are in one form of RFC 3339, and a read has microseconds for them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from app.core.memory.moments import instant_ms

MAX_TIME_CHARACTERS = 64
"""RFC 3339 bounds no fraction: nanoseconds take 35 characters, and nobody means more than these."""
_USUAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{3})?Z")
"""Hours to 23: whether `datetime` takes 24:00 depends on the version of Python."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def time_of(text: str) -> int | None:
    """Milliseconds since 1970 of an RFC 3339 date-time with an offset, None if it is none."""
    if _USUAL.fullmatch(text) is None:
        return None if len(text) > MAX_TIME_CHARACTERS else instant_ms(text)
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // _MS
    except ValueError:
        return None
