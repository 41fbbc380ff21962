"""The condition language: CEL (cel.dev), by cel-expr-python, type-checked when loaded and bounded.

A `Language` is what the variables are. `bounds.py` says what is refused when a bundle is loaded, and how much
work is left then. The expressions of one action share one activation and one limit to their work together. An
evaluation never raises: an error value of the evaluator and an exception of its binding are the same thing
here, a Failure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cel_expr_python import cel

from sluice.core.cel.bounds import MAX_SOURCE, WorkBound, list_refusals, measure_work, sum_coarsely, sum_works
from sluice.core.cel.cel_values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS, Values
from sluice.core.cel.tree import NOTHING, Path, Size, list_reads, read_checked_tree, read_parsed_tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sluice.core.cel.tree import Node

MAX_WORK = 5_000_000_000
"""Picoseconds of work for one action's expressions together. With the copies of the largest values that are
let in, the whole stays within 8 ms."""
_NOTHING_IS_SAFE = Size(-1, -1, -1)


class WorkBudget:
    """The bounds of all expressions that may be asked for, from the quickest to the closest."""

    def __init__(self, expressions: Sequence[Expression], enough: int = MAX_WORK) -> None:
        """`enough`: below this much work the exact amount is not computed."""
        self.enough = enough
        self._coarse = sum_coarsely(expression.work for expression in expressions)
        self.safe = next(
            (size for size in _list_halves() if self._coarse.limit_cost(size) <= enough), _NOTHING_IS_SAFE
        )
        self._by_reads = _group_by_reads(expressions)

    def covers(self, size: Size) -> bool:
        """Whether values of this size make no more work than is enough: larger values never make less."""
        safe = self.safe
        return size.text <= safe.text and size.nodes <= safe.nodes and size.items <= safe.items

    def limit_cost(self, values: Values) -> int:
        """Picoseconds at most on these values: all of the sum where that is more than enough."""
        size = values.whole
        if self.covers(size):
            return self.enough
        work = self._coarse.limit_cost(size)
        if work <= self.enough:
            return work
        return min(
            work,
            sum(expression.limit_cost(values.measure_shown(reads)) for reads, expression in self._by_reads),
        )


def _list_halves() -> Iterable[Size]:
    """The largest sizes that are let in, halved until a list has one entry."""
    halvings = range(MAX_ITEMS.bit_length())
    return (Size(MAX_ITEMS >> by, MAX_ALL_ITEMS >> by, MAX_ALL_TEXT >> by) for by in halvings)


def _group_by_reads(expressions: Iterable[Expression]) -> list[tuple[tuple[Path, ...], WorkBound]]:
    """The sums of those that look at the same; what they look at does not matter to the steady ones."""
    works: dict[tuple[Path, ...], list[WorkBound]] = defaultdict(list)
    for expression in expressions:
        works[expression.reads if expression.steady is None else ()].append(expression.work)
    return [(reads, sum_works(same)) for reads, same in works.items()]


_MAX_NAMED_PATH = 120


class Activation:
    """Evaluates in the order of asking. Work that no longer fits under the limit is not begun."""

    def __init__(
        self,
        language: Language,
        together: WorkBudget,
        variables: Mapping[str, Any],
        bounded: Mapping[str, Any] | None = None,
    ) -> None:
        """`together`: of all expressions that may be asked for; `bounded` as in Values."""
        self._values = Values(variables, bounded)
        self._activation = language.make_activation(self._values.variables)
        work = together.limit_cost(self._values)
        self.roomy = work <= together.enough and not self._values.left_out
        """Whether there is enough room, and every value is there to be seen."""
        self._counting = work > MAX_WORK
        self._left = MAX_WORK

    def evaluate_all(self, listing: ExpressionList) -> list[Any] | None:
        """The plain values of a listing; None when one of them has none. Only asked for where it is roomy."""
        return listing.evaluate(self._activation)

    def evaluate_one(self, expression: Expression) -> Any:
        """A plain value, or a Failure where there is none or it could not be looked for within the bounds."""
        gone = self._values.hides(expression.reads)
        if gone is not None:
            return Failure(f"over_bound: {'.'.join(gone)[:_MAX_NAMED_PATH]} is too large for rules")
        if self._counting and not self._is_affordable(expression):
            return Failure("over_bound: more work than rules may make on one action")
        return expression.evaluate(self._activation)

    def _is_affordable(self, expression: Expression) -> bool:
        work = expression.steady
        if work is None:
            work = expression.work.limit_cost(self._values.measure_shown(expression.reads))
        if work > self._left:
            return False
        self._left -= work
        return True


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
    work: WorkBound
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
class ExpressionList:
    """Several expressions of a language as one that yields the list of their values."""

    program: cel.Expression
    environment: cel.Env

    def evaluate(self, activation: cel.Activation) -> list[Any] | None:
        """The plain values in order. None when one has none, and when they need more rounds of macros
        together (10 000) than the evaluator makes at once: then each must be asked alone."""
        try:
            value = self.program.eval(activation).plain_value()
        except _RAISED:
            return None
        return value if type(value) is list else None

    def values_on(self, variables: Mapping[str, Any]) -> list[Any] | None:
        """The plain values in order, or None as in `evaluate`; `variables` are within the bounds."""
        try:
            value = self.program.eval(self.environment.Activation(variables)).plain_value()
        except _RAISED:
            return None
        return value if type(value) is list else None


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
            tree = read_checked_tree(program.serialize())
            parsed = read_parsed_tree(self._environment.compile(source, disable_check=True).serialize())
        except _RAISED as error:
            raise ExpressionError(_take_first_line(str(error))) from None
        for refusal in (*self._find_presence_of_variables(parsed), *list_refusals(tree)):
            raise ExpressionError(refusal)
        result = program.return_type().name()
        if results is not None and result not in results:
            raise ExpressionError(f"yields {result}, not {' or '.join(results)}")
        mentions = tuple(list_reads(tree))
        work = measure_work(tree, len(mentions))
        steady = work.limit_cost(NOTHING) if work.steady else None
        expression = Expression(source, result, mentions, work, steady, program)
        expression.evaluate(
            self.make_activation({})
        )  # the evaluator plans at the first call: not in an action's time
        return expression

    def make_listing(self, sources: Iterable[str]) -> ExpressionList | None:
        """Expressions that compile alone, as one: a call of the evaluator costs as much as a short one.

        None where the compiler has no room for them together (32 levels, 100 000 characters).
        """
        try:
            listing = ExpressionList(
                self._environment.compile("[" + ", ".join(sources) + "]"), self._environment
            )
        except _RAISED:
            return None
        listing.evaluate(self.make_activation({}))  # planned now, as above
        return listing

    def make_activation(self, variables: Mapping[str, Any]) -> cel.Activation:
        """What expressions are evaluated on: the values as `values.Values` took them."""
        return self._environment.Activation(variables)

    def _find_presence_of_variables(self, parsed: Node) -> Iterable[str]:
        """has() of a variable: the compiler would take it for the variable's value."""
        return (
            f"has({node.parts[0].name}.{node.name}): that is always there; compare it with null"
            for node in parsed.walk()
            if node.presence and node.parts[0].kind == "variable" and node.parts[0].name in self._objects
        )


def _take_first_line(message: str) -> str:
    return _NOISE.sub("", message.partition("\n")[0])
