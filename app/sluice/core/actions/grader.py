"""Stage 2, "grader": rules in prose, of seed 000's type "qualitative", which a model scores (grading.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, model_validator

from sluice.core.actions.grading import Graded, GradedBy, GraderState, find_grading, grade, may_grade
from sluice.core.actions.model_questions import (
    NOT_IN_DOUBT,
    AnalysisDetail,
    AnalysisPart,
    BudgetMs,
    Characters,
    needs_no_asking,
)
from sluice.core.actions.pipeline import INCONCLUSIVE, join_missing
from sluice.core.actions.question_context import find_context
from sluice.core.actions.rules import evaluate_by_type
from sluice.core.actions.stage import PASSED, Decided, RememberingGate, StageResult
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import Name, StrictModel
from sluice.core.policy.bundles import BundlePart, always_asks
from sluice.core.registry.model_proofs import ProofPolicy
from sluice.core.rules.rule import Rule, Source
from sluice.core.rules.rule_set import RuleSet
from sluice.core.state.remembered import GateMemory
from sluice_topics.records.base import Severity  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import Members, Neutral, Unordered

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, ActionPlan, Asking
    from sluice.core.policy.bundles import Bundle

MOST_RULES = 16
LASTS_MS = 24 * 3600 * 1000
"""A day, the idle time after which a session folds and forgets."""


CHANGED = Unordered("the qualitative rule {id} has another criterion or condition")


class QualitativeRule(StrictModel):
    """A rule of seed 000's type "qualitative". `criterion`: what an action must fulfil, in prose, as the
    model reads it; `when`: a CEL condition, a rule for which it is false is not asked about, one for which it
    cannot be decided is. `reason` is what a person reads when the rule fails."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$"), Neutral("names it")]
    reason: Annotated[Name, Neutral("for people")]
    criterion: Annotated[str, Field(min_length=1, max_length=2000), CHANGED]
    severity: Annotated[Severity, Neutral("is recorded with the result")] = "critical"
    when: Annotated[Source | None, CHANGED] = None


class GraderPolicy(AnalysisPart):
    """Without `rules` no model is asked and every action passes. `budget_ms`: for all answers together.
    `most_characters`: of an action's parameters that the model is shown; a longer one that it finds in order
    is inconclusive. `proof`: what a model's proof must show, for every gate that asks about actions."""

    rules: Annotated[
        list[QualitativeRule],
        Field(max_length=MOST_RULES),
        Members("more", "the qualitative rule {member} is gone"),
    ] = Field(default_factory=list)
    budget_ms: BudgetMs = 80
    most_characters: Characters = 16_000
    proof: ProofPolicy = ProofPolicy()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        ids = [rule.id for rule in self.rules]
        if len(set(ids)) != len(ids):
            raise ValueError("two rules have the same id")
        return self

    def idle_fields(self) -> frozenset[str]:
        """How a model is asked, where there is nothing to ask."""
        return frozenset() if self.rules else frozenset({"mode", "ask", "budget_ms"})


class GradedRule(Graded):
    """A rule that the model was asked about."""

    rule: str


class GraderDetail(AnalysisDetail):
    """Empty if nothing was asked. `state` is the grader's after this action."""

    rules: Annotated[list[GradedRule] | None, Field(title="graded")] = None
    state: Annotated[GraderState | None, Field(title="grader")] = None


class GraderMemory(BaseModel):
    """What is remembered of an agent in a session: that it is governed. Autonomous needs no memory."""

    state: Literal["governed"]


class Qualitative(NamedTuple):
    """A bundle's `grader`, compiled: `conditions` are the `when` of the rules at the places in `at`."""

    policy: GraderPolicy
    conditions: RuleSet
    at: tuple[int, ...]

    def select_rules(self, context: ActionContext) -> list[QualitativeRule]:
        """The rules that concern this action. If it may be of several types, one type is enough."""
        rules = self.policy.rules
        if not self.at:
            return rules
        by_type = evaluate_by_type(context, self.conditions)
        unasked = {
            at
            for at, same in zip(self.at, zip(*by_type, strict=True), strict=True)
            if all(result.passed is False for result in same)
        }
        return [rule for index, rule in enumerate(rules) if index not in unasked]


def compile_rules(policy: GraderPolicy) -> Qualitative:
    """Compile the conditions. Raises BundleError with the place of one that is refused."""
    at = tuple(
        index for index, qualitative_rule in enumerate(policy.rules) if qualitative_rule.when is not None
    )
    written = []
    for position in at:
        rule = policy.rules[position]
        written.append(Rule(id=rule.id, type="invariant", reason=rule.reason, condition=rule.when or "true"))
        try:
            RuleSet(written[-1:])
        except BundleError as error:
            _, _, why = str(error).partition(": ")
            raise BundleError(f"$.grader.rules[{position}].when: {why}") from None
    try:
        return Qualitative(policy, RuleSet(written), at)
    except BundleError as error:
        _, _, why = str(error).partition(": ")
        raise BundleError(f"$.grader.rules: {why}") from None


class Grader(RememberingGate):
    """Blocks an action that breaks a rule in prose, and asks a person where the model cannot tell."""

    name = "grader"
    analyses = True
    detail = GraderDetail
    memory = GraderMemory
    decides_unanswered = True
    part = BundlePart(name, GraderPolicy, GraderPolicy(), compile_rules, asks=always_asks)

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """Asks about the rules in the bundle's order until one is broken: a denial beats an escalation."""
        compiled: Qualitative = context.plan.bundle.parts[self.name]
        rules = compiled.select_rules(context)
        if rules and needs_no_asking(context, compiled.policy.ask):
            return NOT_IN_DOUBT
        return _prepare_grading(compiled.policy, rules, context) if rules else PASSED

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where the bundle has no qualitative rule."""
        return None if plan.bundle.parts[self.name].policy.rules else PASSED

    def may_remember(self, bundle: Bundle) -> bool:
        """Whether an action can make its agent's grading governed: where this gate or `policies` asks."""
        return may_grade(bundle)

    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """The state after this action, for as long as the session is remembered."""
        del decided
        if find_grading(context).state == "autonomous":
            return None
        return GateMemory(context.now_ms + LASTS_MS, {"state": "governed"})


def _prepare_grading(policy: GraderPolicy, rules: list[QualitativeRule], context: ActionContext) -> Asking:
    listed: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    outcome: Literal["pass", "block", "escalate"] = "pass"
    reason: str | None = None
    entries: dict[str, str] = {}
    missed: StageResult | None = None
    question_context = find_context(context)
    by = GradedBy(Grader.name, policy.budget_ms, policy.most_characters, question_context)
    for rule in rules:
        grades = yield from grade(context, rule.id, rule.criterion, by)
        entries |= grades.entries
        missed = grades.missed
        if missed is not None:
            break
        graded = grades.graded
        if graded is None:
            outcome, reason = "escalate", grades.why
            continue
        listed.append({"rule": rule.id, **graded.entry()})
        passed = {"passed": True, "failed": False, "needs_human": None}[graded.outcome]
        results.append(_entry(rule, passed))
        if passed is False:
            outcome, reason = "block", f"rule_failed: {rule.id}: {rule.reason}"
            break
        if passed is None and outcome == "pass":
            outcome, reason = "escalate", f"{INCONCLUSIVE}: rule {rule.id}: {rule.reason}"
    detail = {"rules": listed, "state": find_grading(context).state, **question_context.make_fields()}
    result = StageResult(outcome, reason, detail, rules=tuple(results), entries=entries)
    return join_missing(result, missed)


def _entry(rule: QualitativeRule, passed: bool | None) -> dict[str, Any]:
    """The entry of `rule_results` for a qualitative rule."""
    fields: dict[str, Any] = {"rule": rule.id, "type": "qualitative", "passed": passed}
    if passed is not True:
        fields["severity"] = rule.severity
        fields["reason"] = rule.reason if passed is False else f"inconclusive: {rule.reason}"
    if passed is False:
        fields["overridable"] = False
    return fields
