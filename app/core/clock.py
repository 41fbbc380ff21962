"""Times as the ledger writes them. There is no clock here: milliseconds come in, text goes out."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=64)
def _whole_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=64)
def rfc3339(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds and Z, from milliseconds since 1970."""
    second, ms = divmod(at_ms, 1000)
    return f"{_whole_second(second)}.{ms:03d}Z"
