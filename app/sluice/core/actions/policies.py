"""Gate 3, "policies": the passages of an organisation's policies that concern an action (seed 001, Gate 3).

A policy is a passage with its source. An explicit one has a condition in CEL, which is evaluated whenever the
policy applies to the tool: no search decides whether it counts. A semantic one has prose alone, which the
grader of Stage 2 judges. Of those, the ones that name the tool are always judged, and of the others the
closest to the action, as the encoder finds them. The grader's state is one with Stage 2's.

A violated policy blocks or escalates, as the policy itself says; a block beats an escalation. Under the
bundle's `mode` "observe" or "nudge" the action passes, and the verdict says what it would have come to.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, model_validator

from sluice.core.actions.closest import NamedTexts, ask_for_closest, read_closest
from sluice.core.actions.grader import LASTS_MS, GraderMemory
from sluice.core.actions.grading import GradedBy, find_grading, grade, may_grade
from sluice.core.actions.model_questions import BudgetMs, Characters, ShownContext, show_action
from sluice.core.actions.pipeline import INCONCLUSIVE, join_missing, judge_unanswered
from sluice.core.actions.question_context import find_context
from sluice.core.actions.rules import evaluate_by_type
from sluice.core.actions.stage import PASSED, Decided, ObjectionDetail, RememberingGate, StageResult
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import Name, StrictModel
from sluice.core.policy.bundles import BundlePart, always_asks
from sluice.core.policy.gate_modes import ModePart
from sluice.core.rules.rule import Rule, Source
from sluice.core.rules.rule_set import RuleSet
from sluice.core.state.remembered import GateMemory
from sluice_topics.relaxations import ComparedBy, Members, Neutral, Relaxation, Scale, StricterWhen, Unordered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.actions.stage import ActionContext, ActionPlan, Asking
    from sluice.core.policy.bundles import Bundle

MOST_POLICIES = 512
_CRITERION = "The action complies with this policy, or the policy does not concern it."
Outcome = Literal["passed", "failed", "undecided", "needs_human"]


class PolicySource(StrictModel):
    """Where a policy is from: `document` by name, `place` in it (article, section, page, paragraph), and the
    document's digest, if it is at hand."""

    document: Name
    place: Name
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


_CHANGED = "the policy {id} says something else, or applies to other tools"
CHANGED = Unordered(_CHANGED)


def find_tool_relaxations(before: PolicyPassage, after: PolicyPassage) -> Iterator[Relaxation]:
    """Other tools. An empty list means that an encoder finds the policy, for whatever tool."""
    old, new = before.applies_to_tools, after.applies_to_tools
    if set(old) != set(new):
        yield Relaxation(_CHANGED.format(id=before.id), "appliesToTools", old, new)


class PolicyPassage(StrictModel):
    """`text`: what the policy says. With a `condition` it is explicit: the CEL condition must hold where
    `when` does. Without, the grader judges the text. `appliesToTools`: globs of tools (`*`, `?`, `[...]`);
    an empty list: the policy may concern every tool. `outcome`: what a violation comes to."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,95}$"), Neutral("names it")]
    title: Annotated[Name, CHANGED]
    text: Annotated[str, Field(min_length=1, max_length=4000), CHANGED]
    source: Annotated[PolicySource, Neutral("for people")]
    outcome: Annotated[
        Literal["block", "escalate"],
        Scale(("escalate", "block"), "a violation of the policy {id} only escalates"),
    ] = "escalate"
    applies_to_tools: Annotated[
        list[Name], Field(alias="appliesToTools", max_length=64), ComparedBy(find_tool_relaxations)
    ] = Field(default_factory=list)
    when: Annotated[Source | None, CHANGED] = None
    condition: Annotated[Source | None, CHANGED] = None

    @property
    def criterion(self) -> str:
        """What the grader is asked."""
        return f"{_CRITERION} {self.title}: {self.text}"


class PolicyShelf(ModePart):
    """Without `policies` the gate passes everything. `closest`: how many of the semantic policies that name
    no tool are judged, the closest first. `budget_ms`: for all answers of encoder and grader.
    `most_characters`: of an action's parameters that the model is shown."""

    objection: ClassVar[str] = "a violation of a policy"

    policies: Annotated[
        list[PolicyPassage], Field(max_length=MOST_POLICIES), Members("more", "the policy {member} is gone")
    ] = Field(default_factory=list)
    closest: Annotated[
        int,
        Field(ge=1, le=32),
        StricterWhen("higher", "{new} policies are looked up for an action, not {old}"),
    ] = 5
    budget_ms: BudgetMs = 80
    most_characters: Characters = 16_000

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        ids = [policy.id for policy in self.policies]
        if len(set(ids)) != len(ids):
            raise ValueError("two policies have the same id")
        return self

    def idle_fields(self) -> frozenset[str]:
        """How policies are judged, where there is none."""
        return frozenset() if self.policies else frozenset({"mode", "budget_ms"})


class FoundPolicy(BaseModel):
    """A policy that was judged by the grader, or that an action violates. `cosine`: how close it is to the
    action, where it was looked up; `score`, `reasoning`: the grader's."""

    policy: str
    title: str
    outcome: Outcome
    document: str
    place: str
    cosine: float | None = None
    score: float | None = None
    reasoning: str | None = None
    looks: int | None = None
    model: str | None = None
    prompt_version: str | None = None


class PoliciesDetail(ObjectionDetail):
    """Empty if no policy applies. `evaluated`: how many explicit policies; `shown`: what the model was shown
    beside the action, absent where that was nothing."""

    policies: Annotated[list[FoundPolicy] | None, Field(title="policy")] = None
    evaluated: int | None = None
    shown: ShownContext | None = None


class PolicyIndex(NamedTuple):
    """A bundle's `policies`, compiled. `conditions` are those of the policies at the places in `explicit`;
    `library`: the semantic ones that name no tool."""

    part: PolicyShelf
    conditions: RuleSet
    explicit: tuple[PolicyPassage, ...]
    semantic: tuple[PolicyPassage, ...]
    library: NamedTexts


def index_policies(part: PolicyShelf) -> PolicyIndex:
    """Compile the conditions. Raises BundleError with the place of one that is refused."""
    explicit = tuple(policy for policy in part.policies if policy.condition is not None)
    semantic = tuple(policy for policy in part.policies if policy.condition is None)
    for index, passage in enumerate(part.policies):
        if passage.condition is None and passage.when is not None:
            raise BundleError(f"$.policies.policies[{index}].when: only a policy with a condition has one")
        if passage.condition is not None:
            try:
                RuleSet([_rule(passage)])
            except BundleError as error:
                field, _, why = str(error).removeprefix("$.rules[0].").partition(": ")
                raise BundleError(f"$.policies.policies[{index}].{field}: {why}") from None
    try:
        conditions = RuleSet([_rule(policy_passage) for policy_passage in explicit])
    except BundleError as error:
        raise BundleError(f"$.policies: {str(error).partition(': ')[2]}") from None
    searched = [policy_passage for policy_passage in semantic if not policy_passage.applies_to_tools]
    texts = NamedTexts.of(
        {policy_passage.id: f"{policy_passage.title}: {policy_passage.text}" for policy_passage in searched}
    )
    return PolicyIndex(part, conditions, explicit, semantic, texts)


def _rule(policy: PolicyPassage) -> Rule:
    return Rule(
        id=policy.id,
        type="invariant",
        reason=policy.title,
        when=policy.when,
        condition=policy.condition or "true",
    )


def _names(policy: PolicyPassage, tool: str) -> bool:
    return any(
        fnmatch.fnmatchcase(tool.casefold(), pattern.casefold()) for pattern in policy.applies_to_tools
    )


class Policies(RememberingGate):
    """Judges an action by the organisation's policies that concern it, and names the one that it violates."""

    name = "policies"
    detail = PoliciesDetail
    memory = GraderMemory
    decides_unanswered = True
    part = BundlePart(name, PolicyShelf, PolicyShelf(), index_policies, asks=always_asks)

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """The explicit ones first: what they block, no model is asked about."""
        index: PolicyIndex = context.plan.bundle.parts[self.name]
        judged, evaluated = _explicit(index, context)
        semantic = [passage for passage in index.semantic if _names(passage, context.action.tool_name)]
        if not (semantic or index.library.ids) or any(_blocks(passage, state) for passage, state in judged):
            return _judge([(passage, _entry(passage, state)) for passage, state in judged], evaluated)
        return _prepare_question(index, context, judged, semantic, evaluated)

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where the bundle has no policy of prose."""
        return None if plan.bundle.parts[self.name].part.policies else PASSED

    def may_remember(self, bundle: Bundle) -> bool:
        """Whether the grader can come to remember something: the two share one state."""
        return may_grade(bundle)

    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """The grader's state, as Stage 2 keeps it: a bundle may have one of the two gates alone."""
        del decided
        if find_grading(context).state == "autonomous":
            return None
        return GateMemory(context.now_ms + LASTS_MS, {"state": "governed"})


Found = list[tuple[PolicyPassage, Outcome]]


def _explicit(index: PolicyIndex, context: ActionContext) -> tuple[Found, int]:
    """Those that the action violates or that cannot be decided, and how many apply."""
    tool = context.action.tool_name
    applying = [not passage.applies_to_tools or _names(passage, tool) for passage in index.explicit]
    if not any(applying):
        return [], 0
    judged: Found = []
    by_type = evaluate_by_type(context, index.conditions)
    for policy, applies, same in zip(index.explicit, applying, zip(*by_type, strict=True), strict=True):
        results = {result.passed for result in same}
        if applies and results != {True}:
            judged.append((policy, "failed" if False in results else "undecided"))
    return judged, sum(applying)


def _blocks(policy: PolicyPassage, state: Outcome) -> bool:
    return state == "failed" and policy.outcome == "block"


def _entry(policy: PolicyPassage, state: Outcome, **more: Any) -> dict[str, Any]:
    source = policy.source
    fields = {"policy": policy.id, "title": policy.title, "outcome": state}
    return {**fields, "document": source.document, "place": source.place, **more}


def _prepare_question(
    index: PolicyIndex, context: ActionContext, matches: Found, semantic: list[PolicyPassage], evaluated: int
) -> Asking:
    part = index.part
    cosines: dict[str, float | None] = dict.fromkeys(index.library.ids)
    listed = [(passage, _entry(passage, state)) for passage, state in matches]
    if len(index.library.ids) > part.closest:
        text = canonical(show_action(context, part.most_characters).action).decode()
        answer = yield (request := ask_for_closest(text, index.library, part.closest, part.budget_ms))
        if answer.status != "answered":
            unsearched = judge_unanswered(Policies.name, request, answer, context.plan.mode)
            return join_missing(_judge(listed, evaluated), unsearched)
        near = read_closest(answer.payload, index.library)
        if near is None:
            detail = {"policies": [entry for _, entry in listed], "evaluated": evaluated}
            return StageResult("escalate", f"{INCONCLUSIVE}: the closest policies could not be read", detail)
        cosines = {**near}
    by_id = {passage.id: passage for passage in index.semantic}
    entries: dict[str, str] = {}
    missed = None
    question_context = find_context(context)
    by = GradedBy(Policies.name, part.budget_ms, part.most_characters, question_context)
    for policy in [*semantic, *(by_id[name] for name in cosines)]:
        grades = yield from grade(context, policy.id, policy.criterion, by)
        entries |= grades.entries
        if (missed := grades.missed) is not None:
            break
        cosine = cosines.get(policy.id)
        looked_up = {} if cosine is None else {"cosine": cosine}
        if grades.graded is None:
            listed.append((policy, _entry(policy, "undecided", reasoning=grades.why, **looked_up)))
            continue
        fields = {**grades.graded.entry(), **looked_up}
        state: Outcome = fields.pop("outcome")
        listed.append((policy, _entry(policy, state, **fields)))
        if _blocks(policy, state):
            break
    judged = _judge(listed, evaluated)
    judged = judged._replace(entries=entries, detail={**judged.detail, **question_context.make_fields()})
    return join_missing(judged, missed)


def _judge(listed: list[tuple[PolicyPassage, dict[str, Any]]], evaluated: int) -> StageResult:
    entries = [entry for _, entry in listed]
    detail = {"policies": entries, "evaluated": evaluated}
    failed = [(policy, entry) for policy, entry in listed if entry["outcome"] == "failed"]
    worst = [policy for policy, _ in failed if policy.outcome == "block"] or [policy for policy, _ in failed]
    if worst:
        policy = worst[0]
        outcome: Literal["block", "escalate"] = "block" if policy.outcome == "block" else "escalate"
        cited = f"{policy.source.document}, {policy.source.place}"
        return StageResult(outcome, f"policy_violated: {policy.id}: {policy.title} ({cited})", detail)
    open_ones = [entry for entry in entries if entry["outcome"] != "passed"]
    if open_ones:
        reason = f"{INCONCLUSIVE}: policy {open_ones[0]['policy']}: {open_ones[0]['title']}"
        return StageResult("escalate", reason, detail)
    return StageResult("pass", None, detail)
