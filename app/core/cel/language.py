"""The condition language: CEL (cel.dev), by cel-expr-python, type-checked when loaded and bounded.

An evaluation never raises: an error value of the evaluator and an exception of its binding are the same
thing here, a Failure. A `Language` is what the variables are; `bounds.py` says what is refused, `work.py`
how much work is left then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cel_expr_python import cel

from app.core.cel.bounds import MAX_SOURCE, refusals
from app.core.cel.reads import NOTHING, Path, reads
from app.core.cel.tree import checked_tree, parsed_tree
from app.core.cel.work import Work, work_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from app.core.cel.tree import Node

MAX_FAILURE = 200
"""Characters of a failure's message: it may quote a key of the action."""
_RAISED = (RuntimeError, ValueError, TypeError)
_ERROR_TYPES = frozenset({"ERROR", "UNKNOWN"})
_NOISE = re.compile(r"^(?:[A-Z_]+: )?(?:ERROR: <input>:)?|\s*\[[A-Z_]+\]$")


@dataclass(frozen=True, slots=True)
class ExpressionError(Exception):
    """An expression that is refused; the message says why."""

    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An evaluation without a value: a missing field, a division by zero, values of types that do not fit."""

    message: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `result`: its static type's name; `reads`: the paths it can look at;
    `steady`: its work in picoseconds where that is the same for all values."""

    source: str
    result: str
    reads: tuple[Path, ...]
    work: Work
    steady: int | None
    program: cel.Expression

    def evaluate(self, activation: cel.Activation) -> Any:
        """A plain Python value (CEL timestamps are datetimes), or a Failure."""
        try:
            value = self.program.eval(activation)
            plain = value.plain_value()
            if plain is True or plain is False:
                return plain
            return Failure(str(plain)[:MAX_FAILURE]) if value.type().name() in _ERROR_TYPES else plain
        except _RAISED as error:
            return Failure(str(error)[:MAX_FAILURE])


@dataclass(frozen=True, slots=True)
class Listing:
    """Several expressions as one that yields the list of their values."""

    program: cel.Expression

    def evaluate(self, activation: cel.Activation) -> list[Any] | None:
        """The plain values in order. None when one has none, and when they need more rounds of macros
        together (10 000) than the evaluator makes at once: then each must be asked alone."""
        try:
            found = self.program.eval(activation).plain_value()
        except _RAISED:
            return None
        return found if type(found) is list else None


class Language:
    """CEL over variables of these types; a name may be qualified ("action.tool")."""

    def __init__(self, variables: Mapping[str, cel.Type]) -> None:
        self._objects = frozenset(name.partition(".")[0] for name in variables if "." in name)
        self._environment = cel.NewEnv(variables=variables)

    def compile(self, source: str, results: Collection[str] | None = None) -> Expression:
        """Raises ExpressionError when it does not compile, breaks a bound or has another result type."""
        if len(source) > MAX_SOURCE:
            raise ExpressionError(f"over {MAX_SOURCE} characters")
        try:
            program = self._environment.compile(source)
            tree = checked_tree(program.serialize())
            parsed = parsed_tree(self._environment.compile(source, disable_check=True).serialize())
        except _RAISED as error:
            raise ExpressionError(_first_line(str(error))) from None
        for refusal in (*self._asked_of_variables(parsed), *refusals(tree)):
            raise ExpressionError(refusal)
        result = program.return_type().name()
        if results is not None and result not in results:
            raise ExpressionError(f"yields {result}, not {' or '.join(results)}")
        mentions = tuple(reads(tree))
        work = work_of(tree, len(mentions))
        steady = work.bound(NOTHING) if work.steady else None
        expression = Expression(source, result, mentions, work, steady, program)
        expression.evaluate(
            self.activation({})
        )  # the evaluator plans at the first call: not in an action's time
        return expression

    def listing(self, sources: Iterable[str]) -> Listing | None:
        """Expressions that compile alone, as one: a call of the evaluator costs as much as a short one.

        None where the compiler has no room for them together (32 levels, 100 000 characters).
        """
        try:
            listing = Listing(self._environment.compile("[" + ", ".join(sources) + "]"))
        except _RAISED:
            return None
        listing.evaluate(self.activation({}))  # planned now, as above
        return listing

    def activation(self, variables: Mapping[str, Any]) -> cel.Activation:
        """What expressions are evaluated on: the values as `values.Values` took them."""
        return self._environment.Activation(variables)

    def _asked_of_variables(self, parsed: Node) -> Iterable[str]:
        """has() of a variable: the compiler would take it for the variable's value."""
        return (
            f"has({node.parts[0].name}.{node.name}): that is always there; compare it with null"
            for node in parsed.walk()
            if node.presence and node.parts[0].kind == "variable" and node.parts[0].name in self._objects
        )


def _first_line(message: str) -> str:
    return _NOISE.sub("", message.partition("\n")[0])
