"""Spans of time as people write them on a command line (90s, 30m, 12h, 7d), and as they read them."""

from __future__ import annotations

import re

_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def span_ms(text: str) -> int | None:
    """Milliseconds of a number and a unit; None for what is none."""
    read = _SPAN.fullmatch(text)
    return None if read is None else int(read[1]) * _MS[read[2]]


def span(ms: int) -> str:
    """A duration in its largest unit and the next: "1 h 5 min"."""
    for place, (size, unit) in enumerate(_UNITS):
        if ms >= size:
            rest = ms % size
            smaller = _UNITS[place + 1 : place + 2]
            more = f" {rest // smaller[0][0]} {smaller[0][1]}" if smaller and rest >= smaller[0][0] else ""
            return f"{ms // size} {unit}{more}"
    return "0 s"
