"""Expressions on the values of one action: one activation for all, and one limit to their work together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.cel.language import Failure
from app.core.cel.values import NOTHING, Size, Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.cel.language import Expression, Language
    from app.core.cel.work import Work

MAX_WORK = 5_000_000_000
"""Picoseconds of work for one action's expressions together. With the copies of the largest values that are
let in, the whole stays within 8 ms."""
_MAX_NAMED_PATH = 120


class Evaluation:
    """Evaluates in the order of asking. Work that no longer fits under the limit is not begun."""

    def __init__(
        self,
        language: Language,
        together: Work,
        variables: Mapping[str, Any],
        bounded: Mapping[str, Any] | None = None,
    ) -> None:
        """`together`: the coarse work of all expressions that may be asked for; `bounded` as in Values."""
        self._values = Values(variables, bounded)
        self._activation = language.activation(self._values.variables)
        self._counting = together.bound(self._values.whole) > MAX_WORK
        self._left = MAX_WORK

    def value_of(self, expression: Expression) -> Any:
        """A plain value, or a Failure where there is none or it could not be looked for within the bounds."""
        gone = self._values.hides(expression.reads)
        if gone is not None:
            return Failure(f"over_bound: {'.'.join(gone)[:_MAX_NAMED_PATH]} is too large for rules")
        if self._counting and not self._affords(expression):
            return Failure("over_bound: more work than rules may make on one action")
        return expression.evaluate(self._activation)

    def _affords(self, expression: Expression) -> bool:
        work = expression.work.bound(NOTHING if expression.work.steady else self._shown(expression))
        if work > self._left:
            return False
        self._left -= work
        return True

    def _shown(self, expression: Expression) -> Size:
        sizes = [self._values.size(path) for path in expression.reads]
        return Size(
            max((one.items for one in sizes), default=0),
            sum(one.nodes for one in sizes),
            sum(one.text for one in sizes),
        )
