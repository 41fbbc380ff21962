"""One rule, compiled: whether it applies, whether its condition holds, and what that means for its type."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.cel.language import ExpressionError, Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.core.cel.language import Activation, Expression, Language
    from sluice.core.registry.facts import Fact
    from sluice.core.rules.rule import Rule
    from sluice.core.rules.variables import Resolved


@dataclass(frozen=True)
class RuleResult:
    """`passed` None is inconclusive, `why` then says what was missing; `applies` False: its `when` was false.

    `facts`: those that it used, by alias.

    A verdict's `rule_results` hold it (seed 000).
    """

    rule: Rule
    passed: bool | None
    why: str | None = None
    applies: bool = True
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The entry of rule_results. Only a failed assertion may be overridden by a person (product.md).

        Built once and shared by every verdict that says the same of a rule: it is written out, never into.
        """
        rule = self.rule
        entry: dict[str, Any] = {"rule": rule.id, "type": rule.type, "passed": self.passed}
        if not self.applies:
            entry["applies"] = False
        if self.facts:
            entry["facts"] = {alias: fact.key for alias, fact in self.facts.items()}
        if self.passed is not True:
            entry["severity"] = rule.severity
            entry["reason"] = rule.reason if self.why is None else f"inconclusive: {self.why}"
        if self.passed is False:
            entry["overridable"] = rule.type == "assertion"
            if rule.escalates:
                entry["escalates"] = True
        return entry


FACTS = "facts."
_BOOL = ("BOOL",)


class Condition(NamedTuple):
    """A CEL expression that yields bool, and the aliases of the facts that it reads."""

    expression: Expression
    aliases: tuple[str, ...]


class CompiledRule:
    """Evaluates to a result; what cannot be told is inconclusive, and never passed."""

    def __init__(self, language: Language, rule: Rule) -> None:
        """Raises ExpressionError; the message starts with the field."""
        self.rule = rule
        self._when = None if rule.when is None else _condition(language, "when", rule.when)
        self._condition = _condition(language, "condition", rule.condition)
        self._passed = passed = RuleResult(rule, passed=True)
        self.outcomes = (replace(passed, applies=False), passed, replace(passed, passed=False))
        """What the codes mean of a rule that reads no facts."""
        _check_aliases(rule, [alias for condition in self._conditions() for alias in condition.aliases])

    @property
    def expressions(self) -> list[Expression]:
        """The rule's one or two expressions."""
        return [condition.expression for condition in self._conditions()]

    @property
    def cites(self) -> bool:
        """Whether it reads facts."""
        return bool(self.rule.facts)

    @property
    def coded(self) -> str:
        """An expression that yields the code of its outcome; it has no value where the rule is inconclusive.

        A line's end closes what may be a comment.
        """
        rule = self.rule
        codes = "2 : 1" if rule.type == "forbidden" else "1 : 2"
        holds = f"(({rule.condition}\n) ? {codes})"
        return holds if rule.when is None else f"(({rule.when}\n) ? {holds} : 0)"

    def evaluate(self, asked: Activation, resolved: Resolved) -> RuleResult:
        """The rule's result on one action."""
        result = self._passed
        if self._when is not None:
            applies = _answer(self._when, asked, resolved)
            result = self._cite(resolved, self._when.aliases)
            if applies is not True:
                return replace(result, applies=False) if applies is False else _unknown(result, applies)
        holds = _answer(self._condition, asked, resolved)
        if self._condition.aliases:
            result = self._cite(
                resolved, [alias for condition in self._conditions() for alias in condition.aliases]
            )
        if isinstance(holds, Failure):
            return _unknown(result, holds)
        return result if holds is not (self.rule.type == "forbidden") else replace(result, passed=False)

    def _conditions(self) -> tuple[Condition, ...]:
        return (self._condition,) if self._when is None else (self._when, self._condition)

    def _cite(self, resolved: Resolved, aliases: Iterable[str]) -> RuleResult:
        used = {alias: resolved.facts[alias] for alias in aliases if alias in resolved.facts}
        return replace(self._passed, facts=used) if used else self._passed


def _answer(condition: Condition, asked: Activation, resolved: Resolved) -> bool | Failure:
    for alias in condition.aliases:
        if alias in resolved.missing:
            return Failure(resolved.missing[alias])
    value = asked.evaluate_one(condition.expression)
    return value if isinstance(value, bool | Failure) else Failure("yields no bool")


def _unknown(result: RuleResult, failure: Failure) -> RuleResult:
    return RuleResult(result.rule, None, failure.message, result.applies, result.facts)


def _condition(language: Language, field: str, source: str) -> Condition:
    try:
        expression = language.compile(source, _BOOL)
    except ExpressionError as error:
        raise ExpressionError(f"{field}: {error.message}") from None
    names = dict.fromkeys(path[0] for path in expression.reads)
    aliases = tuple(name.removeprefix(FACTS) for name in names if name.startswith(FACTS))
    return Condition(expression, aliases)


def _check_aliases(rule: Rule, used: list[str]) -> None:
    for alias in used:
        if alias not in rule.facts:
            raise ExpressionError(f"facts: {FACTS}{alias} is read and not among them")
    for alias in rule.facts:
        if alias not in used:
            raise ExpressionError(f"facts.{alias}: is never read")
