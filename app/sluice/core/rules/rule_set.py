"""The rules of a bundle as compiled (seed 000, Stage 1)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cel_expr_python import cel

from sluice.core.cel.bounds import EVALUATION, NODE, sum_coarsely
from sluice.core.cel.cel_values import measure_within_bounds
from sluice.core.cel.language import MAX_WORK, Activation, ExpressionError, Language, WorkBudget
from sluice.core.cel.tree import NOTHING, Size
from sluice.core.foundation.errors import BundleError
from sluice.core.rules.compiled_rule import FACTS, CompiledRule
from sluice.core.rules.variables import (
    NO_FACTS,
    VARIABLES,
    Citation,
    Citations,
    citation,
    collect_variables,
    select_variables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sluice.core.cel.language import ExpressionList
    from sluice.core.rules.compiled_rule import RuleResult
    from sluice.core.rules.rule import FactReference, Rule
    from sluice.core.rules.variables import Cited


LARGEST = 64
"""Rules of one list: another list costs 3 us, a longer one more wherever one of its rules is undecided."""
PARTS = 8
"""Rules of a part: one undecided rule of 64 then costs seventeen calls instead of 65."""
_CODE = 6 * NODE
"""Two choices between constants, and an entry of the list."""


class Group:
    """Rules that read no facts, in order.

    A list has no value when one of its entries has none, so a group that cannot answer asks its parts, and at
    last each rule alone: what one rule cannot tell changes nothing for the others.
    """

    def __init__(self, language: Language, rules: Sequence[CompiledRule]) -> None:
        """Every rule was compiled alone before."""
        self._rules = tuple(rules)
        fits = 1 < len(rules) <= LARGEST
        self.listing = language.make_listing([rule.coded for rule in rules]) if fits else None
        self._outcomes = [rule.outcomes for rule in rules]
        size = LARGEST if len(rules) > LARGEST else PARTS
        starts = range(0, len(rules), size) if len(rules) > size else ()
        self._parts = [Group(language, rules[start : start + size]) for start in starts]

    @property
    def enough(self) -> int:
        """The work of all rules alone up to which all lists can be tried in vain before, under MAX_WORK.

        A list makes the work of its rules once more, but for the calls: it is one call itself.
        """
        lists = [*self.lists()]
        calls = sum(len(rule.expressions) for rules in lists for rule in rules) - len(lists)
        codes = sum(map(len, lists)) * _CODE
        return min(MAX_WORK, (MAX_WORK + calls * EVALUATION - codes) // (1 + self.depth))

    def evaluate(self, asked: Activation) -> list[RuleResult]:
        """Every rule's result."""
        codes = None if self.listing is None else asked.evaluate_all(self.listing)
        if codes is not None:
            return self.results_of(codes)
        if self._parts:
            return [result for part in self._parts for result in part.evaluate(asked)]
        return [rule.evaluate(asked, NO_FACTS) for rule in self._rules]

    def results_of(self, codes: Iterable[int]) -> list[RuleResult]:
        """What the values of `listing` mean, rule by rule."""
        return [outcomes[code] for outcomes, code in zip(self._outcomes, codes, strict=True)]

    @property
    def depth(self) -> int:
        """How many lists a rule is in at most."""
        return (self.listing is not None) + max((part.depth for part in self._parts), default=0)

    def lists(self) -> Iterator[tuple[CompiledRule, ...]]:
        """The rules of each list."""
        if self.listing is not None:
            yield self._rules
        for part in self._parts:
            yield from part.lists()


Made = TypeVar("Made")


class RuleSet:
    """The compiled rules of one bundle, evaluated together."""

    def __init__(self, rules: list[Rule]) -> None:
        """Raises BundleError, with the path, for the first rule refused, alone or together with the
        others."""
        _check_together(rules)
        types = {name: variable.type for name, variable in VARIABLES.items()}
        self._citations = _citations(Language(types), rules)
        aliases = {f"{FACTS}{alias}": cel.Type.DYN for rule in rules for alias in rule.facts}
        self._language = Language(types | aliases)
        self._rules = [
            _prefix_error(index, partial(CompiledRule, self._language, rule))
            for index, rule in enumerate(rules)
        ]
        expressions = [expression for rule in self._rules for expression in rule.expressions]
        if sum_coarsely(expression.work for expression in expressions).limit_cost(NOTHING) > MAX_WORK:
            raise BundleError("$.rules: too many to be decided together in time")
        self._group = Group(self._language, [rule for rule in self._rules if not rule.cites])
        self._listing = None if any(rule.cites for rule in self._rules) else self._group.listing
        self._together = WorkBudget(expressions, self._group.enough)
        read = {
            path[0]
            for expression in (*expressions, *self._citations.expressions)
            for path in expression.reads
        }
        self.variables = select_variables(read)
        """The variables that some rule reads: all that `evaluate` needs."""

    def __len__(self) -> int:
        return len(self._rules)

    def codes(self, variables: Mapping[str, Any]) -> tuple[int, ...] | None:
        """What all results follow from (`results_of`), by one call of the evaluator: None where a rule cites
        a fact, is undecided, or where the values are too large to be shown as they are.
        """
        listing = self._listing
        size = None if listing is None else measure_within_bounds(variables)
        if listing is None or size is None:
            return None
        if not self._together.covers(Size(size.items, size.nodes + len(variables), size.text)):
            return None
        values = listing.evaluate(self._language.make_activation(variables))
        return None if values is None else tuple(values)

    def results_of(self, codes: Iterable[int]) -> list[RuleResult]:
        """Every rule's result, in the bundle's order, from what `codes` gave."""
        return self._group.results_of(codes)

    def split(self) -> SplitRules | None:
        """The set with the rules apart that read nothing but what a plan settles; None where a rule cites a
        fact, or all of them cannot be asked at once."""
        if self._listing is None:
            return None
        planned = {name for name, variable in self.variables.items() if variable.planned}
        settled = [
            {path[0] for expression in rule.expressions for path in expression.reads} <= planned
            for rule in self._rules
        ]
        coded = [rule.coded for rule in self._rules]
        lists = [
            self._language.make_listing(
                [code for code, first in zip(coded, settled, strict=True) if first is planned_only]
            )
            for planned_only in (True, False)
        ]
        return SplitRules(self, self._language, self._together, tuple(settled), *lists)

    def evaluate(self, variables: Mapping[str, Any], cited: Cited) -> list[RuleResult]:
        """Every rule's result, in the bundle's order."""
        resolved = self._citations.resolve(variables, cited)
        facts = {f"{FACTS}{alias}": fact.value for alias, fact in resolved.facts.items()}
        asked = Activation(self._language, self._together, variables, facts)
        if not asked.roomy:
            return [rule.evaluate(asked, resolved) for rule in self._rules]
        results = self._group.evaluate(asked)
        if len(results) == len(self._rules):
            return results
        free = iter(results)
        return [rule.evaluate(asked, resolved) if rule.cites else next(free) for rule in self._rules]


class SplitRules:
    """A rule set's rules in two lists: those that a plan settles, and those that each action is asked.

    The two together answer as the set does, and only where the set would at once (`RuleSet.codes`): the
    values of both count for the bounds.
    """

    def __init__(
        self,
        rules: RuleSet,
        language: Language,
        together: WorkBudget,
        settled: tuple[bool, ...],
        planned: ExpressionList | None,
        asked: ExpressionList | None,
    ) -> None:
        """`settled`: of each rule, whether a plan settles it; `planned` and `asked`: the two lists."""
        self._rules = rules
        self._language = language
        self.together = together
        self._settled = settled
        self._planned = planned
        self._asked = asked
        self.count = len(rules.variables)
        """How many variables all rules read."""
        self._variables = {name: variable for name, variable in rules.variables.items() if variable.planned}
        self.reads = tuple(
            (name, variable.quick or variable.value)
            for name, variable in rules.variables.items()
            if not variable.planned
        )
        """The variables that each action is asked for, and where it has them."""

    def settle(self, planned: Any) -> SettledRules | None:
        """What a plan settles, `planned` an input of which only `plan` is looked at; None where it has to be
        asked rule by rule."""
        variables = collect_variables(planned, self._variables)
        size = measure_within_bounds(variables)
        if self._planned is None or self._asked is None or size is None:
            return None
        codes = self._planned.values_on(variables)
        return None if codes is None else SettledRules(tuple(codes), size.text, self._asked)

    def results_of(self, settled: SettledRules, codes: Iterable[int]) -> list[RuleResult]:
        """Every rule's result, in the bundle's order, from the codes of both lists."""
        settled_codes, asked = iter(settled.codes), iter(codes)
        return self._rules.results_of(
            [next(settled_codes) if first else next(asked) for first in self._settled]
        )


class SettledRules(NamedTuple):
    """The codes of the rules that a plan settles, the characters of the values that they read, and the list
    of the rules that each action is asked."""

    codes: tuple[int, ...]
    text: int
    asked: ExpressionList


def _citations(language: Language, rules: list[Rule]) -> Citations:
    citations: dict[str, Citation] = {}
    for index, rule in enumerate(rules):
        for alias, reference in rule.facts.items():
            citations[alias] = _prefix_error(index, partial(citation, language, alias, reference))
    return Citations(language, citations)


def _prefix_error(index: int, step: Callable[[], Made]) -> Made:
    try:
        return step()
    except ExpressionError as error:
        raise _refuse(index, error.message) from None


def _refuse(index: int, message: str) -> BundleError:
    return BundleError(f"$.rules[{index}].{message}")


def _check_together(rules: list[Rule]) -> None:
    ids: set[str] = set()
    meant: dict[str, FactReference] = {}
    for index, rule in enumerate(rules):
        if rule.id in ids:
            raise _refuse(index, f"id: another rule is called {rule.id} too")
        ids.add(rule.id)
        for alias, reference in rule.facts.items():
            if meant.setdefault(alias, reference) != reference:
                raise _refuse(index, f"facts.{alias}: the alias names another fact in another rule")
