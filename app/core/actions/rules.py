"""Stage "rules": the bundle's invariants, assertions and forbidden conditions (seed 000, Stage 1).

Block beats escalate: one rule that failed denies, whatever others could not say; one that nobody could decide
asks a person. All rules are evaluated and listed, so that a verdict shows everything that was wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from app.core.actions.stage import PASSED, Detail, Gate, StageResult
from app.core.policy.bundle_parts import BundlePart
from app.core.quality_bundle.loosenings import Loosening
from app.core.rules.rule import Rule
from app.core.rules.rule_set import RuleSet
from app.core.rules.variables import Cited, variables_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.core.actions.stage import ActionContext
    from app.core.rules.compiled_rule import RuleResult


def find_loosenings(before: list[Rule], after: list[Rule]) -> Iterator[Loosening]:
    """A rule that is gone or that a person may overrule now; of changed conditions nobody can tell which asks
    for more."""
    newer = {one.id: one for one in after}
    for old in before:
        path, new = (f"[{old.id}]",), newer.get(old.id)
        if new is None:
            yield Loosening(f"the rule {old.id} is gone", path)
        elif new.type == "assertion" != old.type:
            yield Loosening(f"a person may overrule {old.id} now", path)
        elif (old.type, old.when, old.condition, old.facts) != (new.type, new.when, new.condition, new.facts):
            yield Loosening(
                f"the rule {old.id} has another condition, which may hold where the old one fails", path
            )


class RulesDetail(Detail):
    """How many rules were evaluated, and the ids of those that failed or that could not be decided. Nothing
    where the bundle has no rules."""

    rules: int | None = None
    failed: Annotated[list[str] | None, Field(title="failed rule")] = None
    inconclusive: Annotated[list[str] | None, Field(title="undecided rule")] = None


class Rules(Gate):
    """Blocks on a failed rule, escalates on an inconclusive one."""

    name = "rules"
    detail = RulesDetail
    part = BundlePart(name, list[Rule], find_loosenings, [], RuleSet)

    def evaluate(self, context: ActionContext) -> StageResult:
        """`rules` lists every rule; the evidence is the ids of the facts used, `entries` their hashes."""
        bundle_rules: RuleSet = context.bundle.parts[self.name]
        if not bundle_rules:
            return PASSED
        results = _worst(results_by_type(context, bundle_rules))
        listed = tuple([one.entry for one in results])
        telling = [one for one in results if one.passed is not True or one.facts]
        if not telling:
            return StageResult("pass", detail=_detail(results, [], []), rules=listed)
        failed = [one for one in telling if one.passed is False]
        open_ones = [one for one in telling if one.passed is None]
        outcome, reason = _outcome(failed, open_ones)
        facts = [fact for one in telling for fact in one.facts.values()]
        return StageResult(
            outcome,
            reason,
            _detail(results, failed, open_ones),
            tuple(dict.fromkeys(fact.id for fact in facts)),
            rules=listed,
            entries={fact.key: fact.hash for fact in facts},
        )


def results_by_type(context: ActionContext, rules: RuleSet) -> list[list[RuleResult]]:
    """Every rule's result, once for each type that the action may be of."""
    cited = Cited(context.registry.facts, context.tenant, context.now_ms)
    if context.types == (context.action_type,):
        return [rules.evaluate(variables_of(context, rules.variables), cited)]
    return [
        rules.evaluate(variables_of(replace(context, action_type=name), rules.variables), cited)
        for name in context.types
    ]


def _worst(by_type: list[list[RuleResult]]) -> Sequence[RuleResult]:
    if len(by_type) == 1:
        return by_type[0]
    return [min(same, key=_rank) for same in zip(*by_type, strict=True)]


def _rank(result: RuleResult) -> int:
    return {False: 0, None: 1, True: 2}[result.passed]


def _outcome(failed: list[RuleResult], open_ones: list[RuleResult]) -> tuple[Any, str | None]:
    if failed:
        return "block", f"rule_failed: {failed[0].rule.id}: {failed[0].rule.reason}"
    if open_ones:
        return "escalate", f"inconclusive: rule {open_ones[0].rule.id}: {open_ones[0].why}"
    return "pass", None


def _detail(
    results: Sequence[RuleResult], failed: list[RuleResult], open_ones: list[RuleResult]
) -> dict[str, Any]:
    return {
        "rules": len(results),
        "failed": [one.rule.id for one in failed],
        "inconclusive": [one.rule.id for one in open_ones],
    }
