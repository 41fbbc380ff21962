"""Times as the ledger writes them. This module has no clock: it turns milliseconds into text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=64)
def _whole_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=64)
def rfc3339(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds and Z, from milliseconds since 1970."""
    second, ms = divmod(at_ms, 1000)
    return f"{_whole_second(second)}.{ms:03d}Z"


def read_milliseconds(moment: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 time in UTC. Raises ValueError."""
    at = datetime.fromisoformat(moment)
    if at.utcoffset() != timedelta(0):
        raise ValueError(f"{moment!r} is not in UTC")
    return (at - _EPOCH) // timedelta(milliseconds=1)


DAY_MS = 86_400_000
_UNITS = ((DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def span(ms: int) -> str:
    """A duration in its largest unit and the next: "1 h 5 min"."""
    for index, (size, unit) in enumerate(_UNITS):
        if ms >= size:
            rest = ms % size
            smaller = _UNITS[index + 1 : index + 2]
            more = f" {rest // smaller[0][0]} {smaller[0][1]}" if smaller and rest >= smaller[0][0] else ""
            return f"{ms // size} {unit}{more}"
    return "0 s"
