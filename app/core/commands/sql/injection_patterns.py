"""Patterns over the skeletons of values that go into SQL; see app/core/commands/sql/injection.py."""

from __future__ import annotations

from app.core.commands.pattern import Described, Expression
from app.core.commands.sql.injection import skeletons
from app.core.foundation.errors import BundleError
from app.core.text.patterns import PatternError, PatternSet

_SIGNS = (
    r"""['"`;#\\]|--|/\*|\|\||&&|@@|\b(?:union|select|xor|having|order|exec|execute|declare|"""
    r"""waitfor|sleep|benchmark|pg_sleep|rlike|information_schema|xp_\w+|insert|drop|delete|update|procedure)\b|"""
)
BREAKOUT_TELLS = rf"{_SIGNS}\b(?:or|and)\b"
"""Without one of these a value has nothing to break out with."""
BREAKOUT = (
    rf"{_SIGNS}\b(?:or|and)\b(?s:.*)(?:[0-9'\"(@=<>!]|"
    r"\b(?:null|true|false|current_\w+|(?:system|session)_user|localtime\w*|sysdate)\b)"
)
"""The same, more narrowly: OR and AND between plain words are English, they need an operand."""
PARTS = {
    "<K>": "(?:n|s|v|f|q|NULL|TRUE|FALSE|TIMER|INFO|ERRF|CODES|FILE)",
    "<cmp>": "(?:=|(?:NOT |SOUNDS )?(?:LIKE|ILIKE|RLIKE|REGEXP|GLOB|IN|BETWEEN)|IS|IS NOT)",
    "<logic>": r"(?:OR|AND|XOR|\|\||WHERE|HAVING)",
    "<open>": r"(?:\( |NOT |o |BINARY )*",
    "<close>": r"(?:\) )*",
    "<cut>": "(?:C|;)",
    "<out>": r"(?:B|P|[ns] (?:\) )*)",
}
"""What an expression may abbreviate."""


class InjectionPattern(Described):
    """`skeleton`: an RE2 expression over a skeleton, in which `<K>`, `<cmp>` ... stand for PARTS."""

    skeleton: Expression


class InjectionPatterns:
    """Injection patterns, compiled to one automaton. Case counts: keywords are upper, operands lower."""

    __slots__ = ("_set",)

    def __init__(self, patterns: list[InjectionPattern]) -> None:
        """Raises BundleError with the path of the expression that does not compile."""
        try:
            self._set = PatternSet([(one, "(?-i)" + _spelled_out(one.skeleton)) for one in patterns])
        except PatternError as error:
            name = patterns[error.index].id
            raise BundleError(
                f"$.patterns.injection[{error.index}].skeleton: {name} does not compile: {error.message}"
            ) from None

    def matches(self, text: str) -> list[InjectionPattern]:
        """The patterns that the value fulfils in any context."""
        found = {one.id: one for skeleton in skeletons(text) for one in self._set.matches(skeleton)}
        return list(found.values())


def _spelled_out(expression: str) -> str:
    for name, part in PARTS.items():
        expression = expression.replace(name, part)
    return expression
