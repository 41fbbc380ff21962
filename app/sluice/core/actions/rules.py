"""Stage "rules": the bundle's invariants, assertions and forbidden conditions (seed 000, Stage 1).

Block beats escalate: a rule that failed denies, even if other rules could not be decided. A rule that could
not be decided asks a person, and so does an assertion that failed and `escalates`. All rules are evaluated
and listed, so that a verdict shows everything that was wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field

from sluice.core.actions.stage import PASSED, Detail, Gate, StageResult
from sluice.core.cel.cel_values import measure_within_bounds
from sluice.core.policy.bundles import BundlePart
from sluice.core.rules.rule import Rule
from sluice.core.rules.rule_set import RuleSet
from sluice.core.rules.variables import ACTION_TYPE, Cited, collect_variables
from sluice_topics.relaxations import Members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.actions.stage import ActionContext, ActionPlan, Evaluate
    from sluice.core.rules.compiled_rule import RuleResult
    from sluice.core.rules.rule_set import SettledRules, SplitRules


NOTHING_GIVEN: Mapping[str, Any] = {}
MOST_KEPT = 4096
"""Results of a bundle's rules that are kept; each is a few hundred bytes."""


class RulesDetail(Detail):
    """How many rules were evaluated, and the ids of those that failed or that could not be decided. Nothing
    where the bundle has no rules."""

    rules: int | None = None
    failed: Annotated[list[str] | None, Field(title="failed rule")] = None
    inconclusive: Annotated[list[str] | None, Field(title="undecided rule")] = None


class CompiledRules:
    """A bundle's `rules`, ready to judge by."""

    __slots__ = ("by_codes", "rules", "split")

    def __init__(self, written: list[Rule]) -> None:
        """Raises BundleError for the first rule refused."""
        self.rules = RuleSet(written)
        self.split = self.rules.split() if written else None
        self.by_codes: dict[Any, StageResult] = {}

    def judge(self, context: ActionContext) -> StageResult:
        """The result of all rules. Most actions come to one of a few results, which are kept."""
        rules = self.rules
        if context.plan.types != (context.plan.action_type,):
            return _judge(_worst(evaluate_by_type(context, rules)))
        variables = collect_variables(context, rules.variables)
        codes = rules.codes(variables)
        if codes is None:
            return _judge(rules.evaluate(variables, _cite(context)))
        return self.by_codes.get(codes) or self.note(codes, rules.results_of(codes))

    def note(self, codes: Any, results: Sequence[RuleResult]) -> StageResult:
        """The result of all rules, kept by the codes that it follows from."""
        result = _judge(results)
        if len(self.by_codes) < MOST_KEPT:
            self.by_codes[codes] = result
        return result


class PlannedRules:
    """A bundle's rules under one plan: those that it settles are not evaluated again."""

    __slots__ = ("_compiled", "_split", "settled")

    def __init__(self, compiled: CompiledRules, split: SplitRules, settled: SettledRules) -> None:
        self._compiled = compiled
        self._split = split
        self.settled = settled

    @property
    def reads(self) -> tuple[str, ...]:
        """The variables for which each action is asked."""
        return tuple(name for name, _ in self._split.reads)

    def evaluate(self, context: ActionContext) -> StageResult:
        """Judge an action of the plan by the rules that the plan has not settled."""
        split, settled, variables = self._split, self.settled, {}
        for name, value in split.reads:
            variables[name] = value(context)
        size, safe = measure_within_bounds(variables), split.together.safe
        if size is None or size.items > safe.items or size.text + settled.text > safe.text:
            return self._compiled.judge(context)
        values = settled.asked.values_on(variables) if size.nodes + split.count <= safe.nodes else None
        if values is None:
            return self._compiled.judge(context)
        codes = tuple(values)
        both = settled.codes, codes
        result = self._compiled.by_codes.get(both)
        return result or self._compiled.note(both, split.results_of(settled, codes))


class Rules(Gate):
    """Blocks on a failed rule, escalates on an inconclusive one, and on one that only escalates."""

    name = "rules"
    detail = RulesDetail
    pauses = True
    part = BundlePart(
        name, list[Rule], [], CompiledRules, direction=Members("more", "the rule {member} is gone")
    )

    def evaluate(self, context: ActionContext) -> StageResult:
        """`rules` lists every rule; the evidence is the ids of the facts used, `entries` their hashes."""
        compiled: CompiledRules = context.plan.bundle.parts[self.name]
        return compiled.judge(context)

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where the bundle has no rule."""
        return None if len(plan.bundle.parts[self.name].rules) else PASSED

    def prepare(self, plan: ActionPlan) -> Evaluate:
        """With the rules settled that read the plan alone, where the action can be of one type only."""
        compiled: CompiledRules = plan.bundle.parts[self.name]
        split = compiled.split if plan.types == (plan.action_type,) else None
        settled = None if split is None else split.settle(_Planned(plan))
        return (
            compiled.judge
            if split is None or settled is None
            else PlannedRules(compiled, split, settled).evaluate
        )


class _Planned(NamedTuple):
    plan: ActionPlan


def _judge(results: Sequence[RuleResult]) -> StageResult:
    listed = tuple([result.entry for result in results])
    telling = [result for result in results if result.passed is not True or result.facts]
    if not telling:
        return StageResult("pass", detail=_detail(results, [], []), rules=listed)
    failed = [result for result in telling if result.passed is False]
    open_ones = [result for result in telling if result.passed is None]
    outcome, reason = _outcome(failed, open_ones)
    facts = [fact for result in telling for fact in result.facts.values()]
    return StageResult(
        outcome,
        reason,
        _detail(results, failed, open_ones),
        tuple(dict.fromkeys(fact.id for fact in facts)),
        rules=listed,
        entries={fact.key: fact.hash for fact in facts},
    )


def evaluate_by_type(
    context: ActionContext, rules: RuleSet, extra_values: Mapping[str, Any] = NOTHING_GIVEN
) -> list[list[RuleResult]]:
    """Every rule's result, once for each type that the action may be of. `extra_values`: the values of some
    variables, in place of the action's."""
    cited = _cite(context)
    values = collect_variables(context, rules.variables)
    values.update((name, value) for name, value in extra_values.items() if name in values)
    if context.plan.types == (context.plan.action_type,):
        return [rules.evaluate(values, cited)]
    return [
        rules.evaluate({**values, ACTION_TYPE: name} if ACTION_TYPE in values else values, cited)
        for name in context.plan.types
    ]


def _cite(context: ActionContext) -> Cited:
    return Cited(context.plan.registry.facts, context.plan.tenant, context.now_ms)


def _worst(by_type: list[list[RuleResult]]) -> Sequence[RuleResult]:
    if len(by_type) == 1:
        return by_type[0]
    return [min(same, key=_rank) for same in zip(*by_type, strict=True)]


def _rank(result: RuleResult) -> int:
    return {False: 0, None: 1, True: 2}[result.passed]


def _outcome(failed: list[RuleResult], open_ones: list[RuleResult]) -> tuple[Any, str | None]:
    for rule_result in sorted(failed, key=lambda result: result.rule.escalates):
        outcome = "escalate" if rule_result.rule.escalates else "block"
        return outcome, f"rule_failed: {rule_result.rule.id}: {rule_result.rule.reason}"
    if open_ones:
        return "escalate", f"inconclusive: rule {open_ones[0].rule.id}: {open_ones[0].why}"
    return "pass", None


def _detail(
    results: Sequence[RuleResult], failed: list[RuleResult], open_ones: list[RuleResult]
) -> dict[str, Any]:
    return {
        "rules": len(results),
        "failed": [result.rule.id for result in failed],
        "inconclusive": [result.rule.id for result in open_ones],
    }
