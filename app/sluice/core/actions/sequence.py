"""Gate "sequence": forbidden orders of actions in a session, and how many denials freeze an agent in it.

The gates before it judge each action by itself. Only this gate sees a harm in two harmless steps: a secret is
read, then something is sent out. A rule has two conditions in CEL, over the variables of docs/rules.md: one
for the first action and one for the later one.

The gate remembers, of each agent in each session, the latest match of every rule's first condition and the
latest denials. An action counts as first where it may have been carried out: it was allowed, or waits for a
person who may let it pass, or nobody was held up (standard mode, shadow). One that was denied does not count
unless the rule says `first_may_be_denied`. A denial is a BLOCK, enforced or not. A repeat of a known action
id is no denial, and while the agent is frozen no denial is added, so that a freeze ends by itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, model_validator

from sluice.core.actions.pipeline import INCONCLUSIVE
from sluice.core.actions.rules import evaluate_by_type
from sluice.core.actions.stage import PASSED, Decided, Detail, RememberingGate, StageResult
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import Name, StrictModel
from sluice.core.policy.bundles import BundlePart
from sluice.core.rules.rule import Rule, Source
from sluice.core.rules.rule_set import RuleSet
from sluice.core.state.remembered import GateMemory, shorten_id
from sluice_topics.relaxations import Members, Neutral, Scale, StricterWhen, Unordered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.actions.stage import ActionContext
    from sluice.core.policy.bundles import Bundle

MOST_RULES = 32
MOST_DENIALS = 64
LONGEST_MS = 24 * 3600 * 1000
"""A day, the idle time after which a session folds and forgets."""
RuleId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
Span = Annotated[int, Field(ge=1, le=LONGEST_MS)]


CHANGED = Unordered("the sequence rule {id} has other conditions, which may hold for less")
FROZEN_LATER = (
    "an agent is frozen by {after.denials} denials within {after.within_ms} ms, "
    "not by {before.denials} denials within {before.within_ms} ms"
)


class SequenceRule(StrictModel):
    """After an action that fulfils `first`, none that fulfils `then` may come within `within_ms` from the
    same agent in the same session. Both are CEL conditions. One that cannot be decided counts as fulfilled,
    and escalates."""

    id: Annotated[RuleId, Neutral("names it")]
    reason: Annotated[Name, Neutral("for people")]
    first: Annotated[Source, CHANGED]
    then: Annotated[Source, CHANGED]
    within_ms: Annotated[
        Span, StricterWhen("higher", "the sequence rule {id} looks back {new} ms, not {old}")
    ]
    outcome: Annotated[
        Literal["block", "escalate"], Scale(("escalate", "block"), "the sequence rule {id} escalates only")
    ] = "block"
    first_may_be_denied: Annotated[
        bool, StricterWhen("true", "what was denied is no first action of the sequence rule {id} any more")
    ] = False


class DenialFreeze(StrictModel):
    """After this many `denials` of an agent within `within_ms` in a session, the gate denies everything of
    the agent in that session, until the oldest of these denials is `within_ms` ago."""

    denials: Annotated[int, Field(ge=1, le=MOST_DENIALS), StricterWhen("lower", FROZEN_LATER)]
    within_ms: Annotated[Span, StricterWhen("higher", FROZEN_LATER)]


class SequencePolicy(StrictModel):
    """Forbidden orders of actions, and when an agent is frozen. Without both the gate passes everything."""

    rules: Annotated[
        list[SequenceRule],
        Field(max_length=MOST_RULES),
        Members("more", "the sequence rule {member} is gone"),
    ] = Field(default_factory=list)
    freeze: Annotated[DenialFreeze | None, StricterWhen("present", "denials no longer freeze an agent")] = (
        None
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        ids = [rule.id for rule in self.rules]
        if len(set(ids)) != len(ids):
            raise ValueError("two rules have the same id")
        return self


class SequenceViolation(BaseModel):
    """A broken rule. `first` is the earlier action (a long id is given as its digest), `after_ms` the time
    since it in ms."""

    id: str
    reason: str
    first: str
    after_ms: int
    undecided: bool


class SequenceDetail(Detail):
    """Empty if nothing was found. `frozen_until_ms` is broker time, ms since 1970."""

    frozen_until_ms: Annotated[int | None, Field(title="frozen until (ms since 1970)")] = None
    denials: Annotated[int | None, Field(title="denials")] = None
    violations: Annotated[list[SequenceViolation] | None, Field(title="sequence")] = None


class SequenceMemory(BaseModel):
    """What the gate remembers of one agent in a session. `firsts` has for each rule's id the latest action
    that fulfilled its first condition, and the latest for which the condition could not be decided, each as
    [ms since 1970, action id, whether it is certain]. `denials`: their times in ms since 1970, the oldest
    first."""

    firsts: dict[str, list[tuple[int, str, bool]]] = Field(default_factory=dict)
    denials: list[int] = Field(default_factory=list)


class Sequences(NamedTuple):
    """A bundle's `sequence`, compiled: `conditions` holds two rules for each rule of the policy: its `first`
    and its `then`."""

    policy: SequencePolicy
    conditions: RuleSet

    def hold(self, context: ActionContext) -> list[tuple[bool | None, bool | None]]:
        """For each rule whether this action fulfils its `first` and its `then`; None: undecided. If the
        action may be of several types, one type that fulfils a condition is enough."""
        if not self.policy.rules:
            return []
        by_type = evaluate_by_type(context, self.conditions)
        passed = [_widest([result.passed for result in same]) for same in zip(*by_type, strict=True)]
        return list(zip(passed[::2], passed[1::2], strict=True))


def _widest(readings: list[bool | None]) -> bool | None:
    if True in readings:
        return True
    return None if None in readings else False


def compile_sequences(policy: SequencePolicy) -> Sequences:
    """Compile the conditions. Raises BundleError with the place of a condition that is refused."""
    written = [
        Rule(id=f"{rule.id} {field}", type="invariant", reason=rule.reason, condition=getattr(rule, field))
        for rule in policy.rules
        for field in _FIELDS
    ]
    try:
        return Sequences(policy, RuleSet(written))
    except BundleError as error:
        raise BundleError(_PLACE.sub(_own_place, str(error))) from None


_FIELDS = ("first", "then")
_PLACE = re.compile(r"^\$\.rules(?:\[(\d+)\]\.condition)?")


def _own_place(match: re.Match[str]) -> str:
    if match[1] is None:
        return "$.sequence.rules"
    rule, field = divmod(int(match[1]), len(_FIELDS))
    return f"$.sequence.rules[{rule}].{_FIELDS[field]}"


class SequenceGate(RememberingGate):
    """Blocks or escalates an action that may not follow an earlier one of the agent in the session. Blocks
    everything of an agent that too many denials have frozen in the session."""

    name = "sequence"
    detail = SequenceDetail
    memory = SequenceMemory
    part = BundlePart(name, SequencePolicy, SequencePolicy(), compile_sequences)

    def evaluate(self, context: ActionContext) -> StageResult:
        """The reason is `frozen_by_denials`, else a broken rule: one that blocks before one that
        escalates."""
        remembered = context.observed.remembered.get(self.name)
        if remembered is None:
            return PASSED
        sequences: Sequences = context.plan.bundle.parts[self.name]
        freeze, now = sequences.policy.freeze, context.now_ms
        denials = _recent(freeze, remembered["denials"], now)
        if freeze is not None and len(denials) >= freeze.denials:
            until, so_many = denials[-freeze.denials] + freeze.within_ms, len(denials)
            reason = f"frozen_by_denials: {so_many} within {freeze.within_ms} ms"
            return StageResult("block", reason, {"frozen_until_ms": until, "denials": so_many})
        if not remembered["firsts"]:
            return PASSED
        return _judge([*_violations(sequences, context, remembered["firsts"])])

    def may_remember(self, bundle: Bundle) -> bool:
        """Whether the bundle has a rule of two actions, or freezes after denials."""
        sequences: Sequences = bundle.parts[self.name]
        return bool(sequences.policy.rules) or sequences.policy.freeze is not None

    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """What the gate remembers after this action; what no longer matters is left out."""
        remembered = context.observed.remembered.get(self.name) or {"firsts": {}, "denials": []}
        sequences: Sequences = context.plan.bundle.parts[self.name]
        policy, now = sequences.policy, context.now_ms
        firsts, until = {}, 0
        holding = sequences.hold(context)
        for rule, (first, _) in zip(policy.rules, holding, strict=True):
            marks = [
                mark for mark in remembered["firsts"].get(rule.id, ()) if now - mark[0] <= rule.within_ms
            ]
            if first is not False and (decided.may_happen or rule.first_may_be_denied):
                certain = first is True
                marks = [mark for mark in marks if mark[2] is not certain]
                marks.append([now, shorten_id(context.action.action_id), certain])
            if marks:
                firsts[rule.id] = marks
                until = max(until, marks[-1][0] + rule.within_ms)
        denials = _recent(policy.freeze, remembered["denials"], now)
        if policy.freeze is not None:
            if decided.is_denial and len(denials) < policy.freeze.denials:
                denials.append(now)
            until = max([until, *(denial + policy.freeze.within_ms for denial in denials)])
        return GateMemory(until, {"firsts": firsts, "denials": denials}) if firsts or denials else None


def _recent(freeze: DenialFreeze | None, denials: list[int], now: int) -> list[int]:
    return [] if freeze is None else [denial for denial in denials if now - denial < freeze.within_ms]


def _violations(
    sequences: Sequences, context: ActionContext, firsts: dict[str, Any]
) -> Iterator[tuple[str, SequenceRule, dict[str, Any]]]:
    """For each rule that this action breaks: the outcome, the rule, and the entry for the detail."""
    now, own = context.now_ms, shorten_id(context.action.action_id)
    for rule, (_, then) in zip(sequences.policy.rules, sequences.hold(context), strict=True):
        marks = [
            mark for mark in firsts.get(rule.id, ()) if now - mark[0] <= rule.within_ms and mark[1] != own
        ]
        if then is False or not marks:
            continue
        at_ms, action_id, certain = next((mark for mark in reversed(marks) if mark[2]), marks[-1])
        undecided = then is None or not certain
        fields = {"id": rule.id, "reason": rule.reason, "first": action_id, "after_ms": now - at_ms}
        yield "escalate" if undecided else rule.outcome, rule, {**fields, "undecided": undecided}


def _judge(broken: list[tuple[str, SequenceRule, dict[str, Any]]]) -> StageResult:
    if not broken:
        return PASSED
    outcome, rule, detail = next((violation for violation in broken if violation[0] == "block"), broken[0])
    violations = [violation for _, _, violation in broken]
    what = f"{rule.id}: {rule.reason}"
    reason = f"{INCONCLUSIVE}: sequence {what}" if detail["undecided"] else f"forbidden_sequence: {what}"
    return StageResult("block" if outcome == "block" else "escalate", reason, {"violations": violations})
