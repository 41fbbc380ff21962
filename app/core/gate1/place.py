"""Where and how a text under inspection was found."""

from __future__ import annotations

from typing import NamedTuple

from app.core.gate1.unfold import PLAIN


class Place(NamedTuple):
    """`path`: the leaf's JSON path; `how`: the disguises and languages around the text, outermost first."""

    path: str
    how: str = PLAIN
    depth: int = 0

    def within(self, how: str) -> Place:
        """The place of a text inside the one here."""
        return Place(self.path, how if self.how == PLAIN else f"{self.how} > {how}", self.depth + 1)
