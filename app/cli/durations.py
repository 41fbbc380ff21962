"""Spans of time as people write them on a command line: 90s, 30m, 12h, 7d."""

from __future__ import annotations

import re

_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def span_ms(text: str) -> int | None:
    """Milliseconds of a number and a unit; None for what is none."""
    read = _SPAN.fullmatch(text)
    return None if read is None else int(read[1]) * _MS[read[2]]
