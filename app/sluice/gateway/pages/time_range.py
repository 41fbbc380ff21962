"""A range of time that a page shows, and what fell into each part of it, as bars. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from sluice.core.foundation.clock import rfc3339, span
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages.forms import read_moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
LAST = {"hour": HOUR_MS, "day": DAY_MS, "week": 7 * DAY_MS}
STEPS_MS = (MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS, 28 * DAY_MS)
MOST_BARS = 30
BAR, GAP, HEIGHT = 10, 1, 100
"""Of a chart's own units: the width of a bar with its gap, the gap, and the height of the highest."""


class TimeRange(NamedTuple):
    """From one time until before another, in ms since 1970. `last`: the word for a range that ends now; ""
    for one that was written. `until_ms` of such a one counts, the end of the others is open."""

    last: str
    since_ms: int
    until_ms: int

    @classmethod
    def read(cls, params: Mapping[str, str], now_ms: int) -> TimeRange:
        """Read the range of a page's address; the last day where it names none. Raises HttpError."""
        since, until = read_moment(params.get("from", "")), read_moment(params.get("to", ""))
        if since is None and until is None:
            last = params.get("last", "")
            last = last if last in LAST else "day"
            return cls(last, now_ms - LAST[last], now_ms)
        until = now_ms if until is None else until
        since = until - DAY_MS if since is None else since
        if not 0 <= since < until:
            raise HttpError(400, "invalid_value", "the range begins before 1970, or ends before it begins")
        return cls("", since, until)

    @property
    def address(self) -> str:
        """The query of a page's address."""
        if self.last:
            return urlencode({"last": self.last})
        return urlencode({"from": rfc3339(self.since_ms), "to": rfc3339(self.until_ms)})

    @property
    def step_ms(self) -> int:
        """The length of a bar's time, in ms."""
        length = self.until_ms - self.since_ms
        return next((step for step in STEPS_MS if length <= step * MOST_BARS), -(-length // MOST_BARS))

    @property
    def step(self) -> str:
        """The length of a bar's time, in words."""
        return span(self.step_ms)


class Box(NamedTuple):
    """A part of a bar, in the chart's own units. `series`: its number."""

    series: int
    x: int
    y: float
    height: float


class TimeChart(NamedTuple):
    """Bars over time. `rows`: of each bar the time at which it begins, and a count for each of the `names`;
    `most`: the count of the highest bar."""

    caption: str
    names: Sequence[str]
    rows: list[tuple[int, list[int]]]

    @property
    def totals(self) -> list[int]:
        """The total of each name."""
        return [sum(counts[index] for _, counts in self.rows) for index in range(len(self.names))]

    @property
    def most(self) -> int:
        """The count of the highest bar."""
        return max((sum(counts) for _, counts in self.rows), default=0)

    @property
    def width(self) -> int:
        """The width of the whole chart."""
        return BAR * len(self.rows)

    @property
    def boxes(self) -> list[Box]:
        """The boxes to draw: the first name lowest."""
        made, most = list[Box](), self.most or 1
        for index, (_, counts) in enumerate(self.rows):
            top = float(HEIGHT)
            for series, count in enumerate(counts):
                height = count * HEIGHT / most
                top -= height
                if count:
                    made.append(Box(series, index * BAR, round(top, 2), round(height, 2)))
        return made


def count_over_time(
    caption: str, names: Sequence[str], events: Iterable[tuple[int, str]], shown: TimeRange
) -> TimeChart:
    """A bar for each step of a range, from times in ms and names of what happened; others count nowhere."""
    step = shown.step_ms
    first = shown.since_ms // step
    counts = Counter(
        (at_ms // step, name) for at_ms, name in events if shown.since_ms <= at_ms and name in names
    )
    last = max([(shown.until_ms - 1) // step, *(step_index for step_index, _ in counts)])
    rows = [
        (step_index * step, [counts[step_index, name] for name in names])
        for step_index in range(max(first, last - 2 * MOST_BARS), last + 1)
    ]
    return TimeChart(caption, names, rows)
