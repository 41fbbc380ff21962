"""Gate "mandate": an action lies within what its agent was asked to do in the session.

The other gates judge what an action does and who may do it. Harm is often in a call that nobody had asked
for: honest by its form, and only its address or account is wrong. Against that helps what the task was,
signed by somebody other than the agent (docs/mandates.md).

An action lies within its mandate if the mandate is in force and, in its own tools and in those of every
mandate above it, one stands for this tool whose condition holds and whose count is not used up. A condition
that cannot be decided does not hold. The gate remembers the counts: of calls that were carried out, or may be
once a person agrees.

It only narrows. What lies within a mandate is judged by all other gates as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, Field

from sluice.core.actions.rules import evaluate_by_type
from sluice.core.actions.stage import PASSED, Decided, Detail, RememberingGate, StageResult
from sluice.core.actions.task_mandates import EVERY_CALL, compile_condition
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundles import BundlePart
from sluice.core.registry.mandates import MandateNeed
from sluice.core.rules.variables import MANDATE_DESTINATIONS, MANDATE_VALUES
from sluice.core.state.remembered import GateMemory, shorten_id
from sluice_topics.records.base import Tier  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import Members, Scale

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.actions.stage import ActionContext, ActionPlan, StageOutcome

OUTSIDE = "outside_mandate"
MOST_WAITING = 32
"""Calls that wait for a person, of which a mandate's memory keeps what they used."""
NEEDS: tuple[MandateNeed, ...] = get_args(MandateNeed)
Effect = Literal["observe", "ask", "deny"]
_OUTCOMES: Mapping[Effect, StageOutcome] = {"observe": "pass", "ask": "escalate", "deny": "block"}
Why = Literal["none_named", "absent", "ended", "over", "other_intent", "tool", "condition", "count"]


class TierMandate(StrictModel):
    """What actions of a tier need. `need` "needed": every one lies within a mandate; "counted": one that
    names a mandate does, and so does every one of an agent that has a mandate in the session; "not_needed":
    mandates change nothing. `outside`: what comes of one that lies outside."""

    need: Annotated[MandateNeed, Scale(NEEDS, "a mandate is {new} for {id}, not {old}")] = "not_needed"
    outside: Annotated[
        Effect, Scale(get_args(Effect), "outside its mandate an action of {id} comes to {new}, not {old}")
    ] = "ask"


class MandatePolicy(StrictModel):
    """By tier what an action needs of a mandate; a tier that is left out needs none, and asks a person where
    an agent's entry wants one."""

    tiers: Annotated[
        dict[Tier, TierMandate], Members("more", "an action of {member} needs no mandate any more")
    ] = Field(default_factory=dict)


class MandateDetail(Detail):
    """Empty where none was needed. `outside`: in what the action lies outside, `objection` the sentence where
    the bundle only observes. `above`: of which mandate above its own that is true, 1 for the nearest."""

    mandate: Annotated[str | None, Field(title="mandate")] = None
    issuer_id: Annotated[str | None, Field(title="issued by")] = None
    outside: Annotated[Why | None, Field(title="outside the mandate by")] = None
    above: Annotated[int | None, Field(title="mandate above")] = None
    objection: Annotated[str | None, Field(title="objection")] = None


class MandateUses(BaseModel):
    """What was used of a mandate. `used`: by "scope.tool", their places from 0, how many calls. `waiting`: by
    action id what each call that waits for a person has used of it."""

    until: int
    used: dict[str, int] = Field(default_factory=dict)
    waiting: dict[str, list[str]] = Field(default_factory=dict)


class MandateMemory(BaseModel):
    """What the gate remembers of one agent in a session: by a mandate's digest its uses, of mandates with
    counts."""

    uses: dict[str, MandateUses]


class _Objection(NamedTuple):
    why: Why
    text: str
    above: int | None = None


class MandateGate(RememberingGate):
    """Asks a person, or denies, where an action lies outside what its agent was asked to do."""

    name = "mandate"
    detail = MandateDetail
    memory = MandateMemory
    judges_content = False
    leaves_denials = True
    grants_cover = False
    part = BundlePart(name, MandatePolicy, MandatePolicy())

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where neither tier nor agent asks for a mandate."""
        return PASSED if _find_terms(plan).need == "not_needed" else None

    def evaluate(self, context: ActionContext) -> StageResult:
        """The reason is `outside_mandate` and in what."""
        terms, mandate = _find_terms(context.plan), context.seen.mandate
        named = context.action.mandate_digest is not None
        if terms.need == "not_needed" or (
            terms.need == "counted" and not named and not context.seen.mandates
        ):
            return PASSED
        detail: dict[str, Any] = {}
        if mandate is not None:
            detail = {"mandate": mandate["digest"], "issuer_id": mandate["scopes"][0]["issuer_id"]}
        found = _object_to_mandate(context)
        if found is None:
            used = _read_used(context, context.seen.remembered.get(self.name))
            within = _find_places(context, used)
            if not isinstance(within, _Objection):
                return StageResult("pass", None, detail)
            found = within
        detail["outside"] = found.why
        if found.above is not None:
            detail["above"] = found.above
        reason = f"{OUTSIDE}: {found.text}"
        if terms.outside == "observe":
            return StageResult("pass", None, {**detail, "objection": reason})
        return StageResult(_OUTCOMES[terms.outside], reason, detail)

    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """What was used of the agent's mandates, without those whose time is over."""
        known, now = context.seen.remembered.get(self.name), context.now_ms
        if known is None and context.action.mandate_digest is None:
            return None
        uses = {digest: one for digest, one in (known or {"uses": {}})["uses"].items() if one["until"] > now}
        mandate = context.seen.mandate
        if mandate is not None and _object_to_mandate(context) is None:
            kept = _use(context, decided, uses.get(mandate["digest"]), _read_used(context, known))
            if kept is not None:
                uses[mandate["digest"]] = kept
        if not uses:
            return None
        return GateMemory(max(one["until"] for one in uses.values()), {"uses": uses})


def _find_terms(plan: ActionPlan) -> TierMandate:
    """What the plan's actions need: the stricter of bundle and agent."""
    policy: MandatePolicy = plan.bundle.parts[MandateGate.name]
    terms: TierMandate = policy.tiers.get(plan.tier, _NOTHING)  # type: ignore[call-overload]
    own = None if plan.agent is None else plan.agent.mandate
    if own is None or NEEDS.index(own) <= NEEDS.index(terms.need):
        return terms
    return TierMandate(need=own, outside=terms.outside)


_NOTHING = TierMandate()


def _object_to_mandate(context: ActionContext) -> _Objection | None:
    """Why the mandate that an action names does not count; None if it does."""
    action, mandate = context.action, context.seen.mandate
    if action.mandate_digest is None:
        held = context.seen.mandates
        return _Objection("none_named", f"it names none of the session's {held}" if held else "it names none")
    if mandate is None:
        return _Objection("absent", f"the session has no mandate {action.mandate_digest}")
    if "void" in mandate:
        return _Objection("ended", mandate["void"])
    if mandate["until_ms"] <= context.now_ms:
        return _Objection("over", f"the mandate counted until {rfc3339(mandate['until_ms'])}")
    told = action.governance_context and action.governance_context.original_intent_hash
    if told not in (None, mandate["task_hash"]):
        return _Objection("other_intent", "originalIntentHash is not the hash of the mandate's task")
    return None


def _find_places(context: ActionContext, used: Mapping[str, int]) -> list[str] | _Objection:
    """By which tools of its own and of the mandates above it an action lies within its mandate, as
    "scope.tool", of those that are counted; or in what it lies outside. `used`: calls so far."""
    places = []
    for level, scope in enumerate((context.seen.mandate or {"scopes": ()})["scopes"]):
        found = _find_place(context, level, scope, used)
        if isinstance(found, _Objection):
            return found
        places += found
    return places


def _find_place(
    context: ActionContext, level: int, scope: Mapping[str, Any], used: Mapping[str, int]
) -> list[str] | _Objection:
    tool, above = context.action.tool_name, level or None
    if scope["tools"] is None:
        return []
    objection = _Objection("tool", f"the task does not need the tool {tool}", above)
    for place, one in enumerate(scope["tools"]):
        if one["tool"] != tool:
            continue
        condition, name = one.get("condition", EVERY_CALL), f"{level}.{place}"
        if not _holds(context, condition, scope):
            if objection.why == "tool":
                objection = _Objection("condition", f"{tool} is for calls of which {condition}", above)
        elif "count" not in one:
            return []
        elif used.get(name, 0) < one["count"]:
            return [name]
        else:
            objection = _Objection("count", f"{tool} was used {one['count']} times already", above)
    return objection


def _holds(context: ActionContext, condition: str, scope: Mapping[str, Any]) -> bool:
    """Whether a condition holds for every type that the action may be of."""
    if condition == EVERY_CALL:
        return True
    given = {MANDATE_VALUES: scope.get("values", {}), MANDATE_DESTINATIONS: scope["destinations"]}
    try:
        by_type = evaluate_by_type(context, compile_condition(condition), given)
    except BundleError:
        return False
    return all(one.passed is True for results in by_type for one in results)


def _read_used(context: ActionContext, known: Any) -> dict[str, int]:
    """Calls so far under the action's mandate, without its own use where a person has approved it."""
    mandate = context.seen.mandate
    uses = None if known is None or mandate is None else known["uses"].get(mandate["digest"])
    if uses is None:
        return {}
    used, own = dict(uses["used"]), shorten_id(context.action.action_id)
    if context.approved:
        for name in uses["waiting"].get(own, ()):
            used[name] -= 1
    return used


def _use(
    context: ActionContext, decided: Decided, before: Any, used: dict[str, int]
) -> dict[str, Any] | None:
    """What was used of the action's mandate after it; None where nothing of it is counted."""
    own = shorten_id(context.action.action_id)
    waiting = {} if before is None else dict(before["waiting"])
    if context.approved:
        waiting.pop(own, None)
    places = _find_places(context, used) if decided.may_happen else []
    if not isinstance(places, _Objection) and places:
        for name in places:
            used[name] = used.get(name, 0) + 1
        if not decided.carried:
            waiting[own] = places
    while len(waiting) > MOST_WAITING:
        del waiting[next(iter(waiting))]
    used = {name: count for name, count in used.items() if count}
    if not used or context.seen.mandate is None:
        return None if before is None else {**before, "used": used, "waiting": waiting}
    return {"until": context.seen.mandate["until_ms"], "used": used, "waiting": waiting}
