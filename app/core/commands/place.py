"""Where and how a text under inspection was found."""

from __future__ import annotations

from typing import NamedTuple

from app.core.commands.leaves import Trail, path_of
from app.core.text.unfold import PLAIN


class Place(NamedTuple):
    """`trail`: the way to the leaf; `how`: the disguises and languages around the text, outermost first."""

    trail: Trail
    how: str = PLAIN
    depth: int = 0

    @property
    def path(self) -> str:
        """The leaf's JSON path."""
        return path_of(self.trail)

    def within(self, how: str) -> Place:
        """The place of a text inside the one here."""
        return Place(self.trail, how if self.how == PLAIN else f"{self.how} > {how}", self.depth + 1)
