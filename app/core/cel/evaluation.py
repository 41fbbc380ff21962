"""Expressions on the values of one action: one activation for all, and one limit to their work together."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from app.core.cel.language import Failure
from app.core.cel.reads import Size
from app.core.cel.values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS, Values
from app.core.cel.work import coarse, summed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.core.cel.language import Expression, Language, Listing
    from app.core.cel.reads import Path
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


_MAX_NAMED_PATH = 120


class Evaluation:
    """Evaluates in the order of asking. Work that no longer fits under the limit is not begun."""

    def __init__(
        self,
        language: Language,
        together: Allowance,
        variables: Mapping[str, Any],
        bounded: Mapping[str, Any] | None = None,
    ) -> None:
        """`together`: of all expressions that may be asked for; `bounded` as in Values."""
        self._values = Values(variables, bounded)
        self._activation = language.activation(self._values.variables)
        work = together.bound(self._values)
        self.roomy = work <= together.enough and not self._values.left_out
        """Whether there is enough room, and every value is there to be seen."""
        self._counting = work > MAX_WORK
        self._left = MAX_WORK

    def values_of(self, listing: Listing) -> list[Any] | None:
        """The plain values of a listing; None when one of them has none. Only asked for where it is roomy."""
        return listing.evaluate(self._activation)

    def value_of(self, expression: Expression) -> Any:
        """A plain value, or a Failure where there is none or it could not be looked for within the bounds."""
        gone = self._values.hides(expression.reads)
        if gone is not None:
            return Failure(f"over_bound: {'.'.join(gone)[:_MAX_NAMED_PATH]} is too large for rules")
        if self._counting and not self._affords(expression):
            return Failure("over_bound: more work than rules may make on one action")
        return expression.evaluate(self._activation)

    def _affords(self, expression: Expression) -> bool:
        work = expression.steady
        if work is None:
            work = expression.work.bound(self._values.shown(expression.reads))
        if work > self._left:
            return False
        self._left -= work
        return True
