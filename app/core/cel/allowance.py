"""How much work some expressions may make on one action together: no closer than the answer needs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from app.core.cel.sizes import Size
from app.core.cel.values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS
from app.core.cel.work import coarse, summed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.core.cel.language import Expression
    from app.core.cel.reads import Path
    from app.core.cel.values import Values
    from app.core.cel.work import Work

MAX_WORK = 5_000_000_000
"""Picoseconds of work for one action's expressions together. With the copies of the largest values that are
let in, the whole stays within 8 ms."""
_NOTHING_IS_SAFE = Size(-1, -1, -1)


class Allowance:
    """The bounds of all expressions that may be asked for, from the quickest to the closest."""

    def __init__(self, expressions: Sequence[Expression], enough: int = MAX_WORK) -> None:
        """`enough`: the work up to which nobody asks how much less it is."""
        self.enough = enough
        self._coarse = coarse(one.work for one in expressions)
        self._safe = next(
            (size for size in _halves() if self._coarse.bound(size) <= enough), _NOTHING_IS_SAFE
        )
        self._by_reads = _by_reads(expressions)

    def bound(self, values: Values) -> int:
        """Picoseconds at most on these values: all of the sum where that is more than enough."""
        size, safe = values.whole, self._safe
        if size.text <= safe.text and size.nodes <= safe.nodes and size.items <= safe.items:
            return self.enough  # larger values never make less work
        work = self._coarse.bound(size)
        if work <= self.enough:
            return work
        return min(work, sum(one.bound(values.shown(reads)) for reads, one in self._by_reads))


def _halves() -> Iterable[Size]:
    """The largest sizes that are let in, halved until a list has one entry."""
    halvings = range(MAX_ITEMS.bit_length())
    return (Size(MAX_ITEMS >> by, MAX_ALL_ITEMS >> by, MAX_ALL_TEXT >> by) for by in halvings)


def _by_reads(expressions: Iterable[Expression]) -> list[tuple[tuple[Path, ...], Work]]:
    """The sums of those that look at the same; what they look at does not matter to the steady ones."""
    works: dict[tuple[Path, ...], list[Work]] = defaultdict(list)
    for one in expressions:
        works[one.reads if one.steady is None else ()].append(one.work)
    return [(reads, summed(same)) for reads, same in works.items()]
