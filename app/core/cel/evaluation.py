"""Expressions on the values of one action: one activation for all, and one limit to their work together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.cel.allowance import MAX_WORK
from app.core.cel.language import Failure
from app.core.cel.values import Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.cel.allowance import Allowance
    from app.core.cel.language import Expression, Language, Listing

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
