"""How much is measured: the full counts of `make bench`, or a part of them to see that a program works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """`rounds` of each measurement, each with `share` of its full count."""

    rounds: int = 3
    share: float = 1.0

    def of(self, count: int) -> int:
        """This share of a count, at least 100."""
        return max(100, round(count * self.share))
