"""Gate "mandate": an action lies within what its agent was asked to do in the session.

The other gates judge what an action does and who may do it. Harm is often in a call that nobody had asked
for: honest by its form, and only its address or account is wrong. Against that helps what the task was,
signed by somebody other than the agent (docs/mandates.md).

An action lies within its mandate if the mandate is in force and, in its own tools and in those of every
mandate above it, one stands for this tool whose condition holds and whose count is not used up. A condition
that cannot be decided does not hold. The gate remembers the counts: of calls that were carried out, or may be
once a person agrees. A count is one for all that lies within the mandate that says it, in one session: the
mandate itself, those below it, and all agents.

It only narrows. What lies within a mandate is judged by all other gates as before.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, Field

from sluice.core.actions.rules import evaluate_by_type
from sluice.core.actions.stage import PASSED, Decided, Detail, RememberingGate, StageResult
from sluice.core.actions.task_mandates import EVERY_CALL, compile_condition
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.approval_policy import TIERS
from sluice.core.policy.bundles import BundlePart
from sluice.core.registry.mandates import MandateNeed
from sluice.core.registry.registry_entries import Name  # noqa: TC001 - pydantic reads the annotations
from sluice.core.rules.variables import MANDATE_DESTINATIONS, MANDATE_VALUES, find_mandate_in_force
from sluice.core.state.mandates import USES, find_end_ms
from sluice.core.state.remembered import GateMemory, shorten_id
from sluice_topics.records.base import Tier  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import ComparedBy, Members, PartOf, Relaxation, Scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.core.actions.stage import ActionContext, ActionPlan, StageOutcome

OUTSIDE = "outside_mandate"
MOST_WAITING = 32
"""Calls that wait for a person, of which a mandate's memory keeps what they used."""
MOST_COUNTED = 16
"""Mandates of which an agent's memory keeps counts: its own, and those above them."""
MOST_AGENTS = 1024
NEEDS: tuple[MandateNeed, ...] = get_args(MandateNeed)
Effect = Literal["observe", "ask", "deny"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
_OUTCOMES: Mapping[Effect, StageOutcome] = {"observe": "pass", "ask": "escalate", "deny": "block"}
Why = Literal["none_named", "absent", "ended", "over", "other_intent", "tool", "condition", "count"]


class TierMandate(StrictModel):
    """What actions of a tier need. `need` "needed": every one lies within a mandate; "counted": one that
    names a mandate does, and so does every one of an agent that has a mandate in the session; "not_needed":
    mandates change nothing. `outside`: what comes of one that lies outside."""

    need: Annotated[MandateNeed, Scale(NEEDS, "a mandate is {new} for {id}, not {old}")] = "not_needed"
    outside: Annotated[
        Effect, Scale(EFFECTS, "outside its mandate an action of {id} comes to {new}, not {old}")
    ] = "ask"


class AgentMandates(StrictModel):
    """What actions of one agent need, in the tiers that it names; the others are as for all agents."""

    tiers: Annotated[dict[Tier, TierMandate], PartOf("agents")]


def _compare_agents(before: MandatePolicy, after: MandatePolicy) -> Iterator[Relaxation]:
    """Where an agent that has terms of its own needs less than it did."""
    named = dict.fromkeys((*before.agents, *after.agents))
    for agent, tier in product(named, TIERS):
        if not any(
            agent in policy.agents and tier in policy.agents[agent].tiers for policy in (before, after)
        ):
            continue
        old, new = before.find_terms(agent, tier), after.find_terms(agent, tier)
        path = f"agents[{agent}].tiers.{tier}"
        if NEEDS.index(new.need) < NEEDS.index(old.need):
            says = f"a mandate is {new.need} for {tier} of {agent}, not {old.need}"
            yield Relaxation(says, f"{path}.need", old.need, new.need)
        if EFFECTS.index(new.outside) < EFFECTS.index(old.outside):
            what = f"outside its mandate an action of {tier} of {agent}"
            says = f"{what} comes to {new.outside}, not {old.outside}"
            yield Relaxation(says, f"{path}.outside", old.outside, new.outside)


class MandatePolicy(StrictModel):
    """By tier what an action needs of a mandate; a tier that is left out needs none, and asks a person where
    an agent's entry wants one. `agents`: by an agent's id what its actions need instead, in the tiers that
    stand there."""

    tiers: Annotated[
        dict[Tier, TierMandate], Members("more", "an action of {member} needs no mandate any more")
    ] = Field(default_factory=dict)
    agents: Annotated[
        dict[Name, AgentMandates], Field(max_length=MOST_AGENTS), ComparedBy(_compare_agents)
    ] = Field(default_factory=dict)

    def find_terms(self, agent_id: str | None, tier: str) -> TierMandate:
        """What the bundle says for an agent's actions of a tier; None: an agent that nothing is said of."""
        own = None if agent_id is None else self.agents.get(agent_id)
        terms: TierMandate | None = None if own is None else own.tiers.get(tier)  # type: ignore[call-overload]
        return terms or self.tiers.get(tier, _NOTHING)  # type: ignore[call-overload]


class MandateDetail(Detail):
    """Empty where none was needed. `outside`: in what the action lies outside, `objection` the sentence where
    the bundle only observes. `above`: of which mandate above its own that is true, 1 for the nearest."""

    mandate: Annotated[str | None, Field(title="mandate")] = None
    issuer_id: Annotated[str | None, Field(title="issued by")] = None
    outside: Annotated[Why | None, Field(title="outside the mandate by")] = None
    above: Annotated[int | None, Field(title="mandate above")] = None
    objection: Annotated[str | None, Field(title="objection")] = None


class MandateUses(BaseModel):
    """What an agent used of a mandate's counts. `used`: by "0.tool", a tool's place from 0, how many calls,
    also of mandates within it. `waiting`: by action id what each call that waits for a person has used of
    it."""

    until: int
    used: dict[str, int] = Field(default_factory=dict)
    waiting: dict[str, list[str]] = Field(default_factory=dict)


class MandateMemory(BaseModel):
    """What the gate remembers of one agent in a session: by the digest of a mandate with counts what the
    agent used of it."""

    uses: dict[str, MandateUses]


class _Objection(NamedTuple):
    why: Why
    text: str
    above: int | None = None


class MandateGate(RememberingGate):
    """Asks a person, or denies, where an action lies outside what its agent was asked to do."""

    name = USES
    detail = MandateDetail
    memory = MandateMemory
    judges_content = False
    leaves_denials = True
    grants_cover = False
    counts_without_room = True
    part = BundlePart(name, MandatePolicy, MandatePolicy())

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where neither tier nor agent asks for a mandate."""
        return PASSED if _find_terms(plan).need == "not_needed" else None

    def evaluate(self, context: ActionContext) -> StageResult:
        """The reason is `outside_mandate` and in what."""
        terms, mandate = _find_terms(context.plan), context.observed.mandate
        named = context.action.mandate_digest is not None
        if terms.need == "not_needed" or (
            terms.need == "counted" and not named and not context.observed.mandates
        ):
            return PASSED
        detail: dict[str, Any] = {}
        if mandate is not None:
            detail = {"mandate": mandate["digest"], "issuer_id": mandate["scopes"][0]["issuer_id"]}
        objection = _object_to_action(context)
        if objection is None:
            return StageResult("pass", None, detail)
        detail["outside"] = objection.why
        if objection.above is not None:
            detail["above"] = objection.above
        reason = f"{OUTSIDE}: {objection.text}"
        if terms.outside == "observe":
            return StageResult("pass", None, {**detail, "objection": reason})
        return StageResult(_OUTCOMES[terms.outside], reason, detail)

    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """What was used of the agent's mandates, without those whose time is over."""
        if context.observed.remembered.get(self.name) is None and context.action.mandate_digest is None:
            return None
        uses = _list_uses(context)
        if find_mandate_in_force(context) is not None:
            _use(context, decided, uses)
        uses = {digest: use for digest, use in uses.items() if use["used"]}
        return GateMemory(max(use["until"] for use in uses.values()), {"uses": uses}) if uses else None


def _find_terms(plan: ActionPlan) -> TierMandate:
    """What the plan's actions need: the stricter of bundle and agent."""
    policy: MandatePolicy = plan.bundle.parts[MandateGate.name]
    terms = policy.find_terms(None if plan.agent is None else plan.agent.id, plan.tier)
    own = None if plan.agent is None else plan.agent.mandate
    if own is None or NEEDS.index(own) <= NEEDS.index(terms.need):
        return terms
    return TierMandate(need=own, outside=terms.outside)


_NOTHING = TierMandate()


def find_mandate(context: ActionContext) -> Mapping[str, Any] | None:
    """The mandate that an action names, as MandateSeen writes it, if it counts."""
    return context.observed.mandate if _object_to_mandate(context) is None else None


def lies_within_mandate(context: ActionContext) -> bool:
    """Whether an action lies within the mandate that it names, also where the gate does not ask for one.
    Where the bundle does not run the gate nothing is counted, so that no count is used up."""
    return _object_to_action(context) is None


def _object_to_action(context: ActionContext) -> _Objection | None:
    """In what an action lies outside its mandate; None if it lies within."""
    return _object_to_mandate(context) or _find_places(context, _list_uses(context)).objection


def _object_to_mandate(context: ActionContext) -> _Objection | None:
    """Why the mandate that an action names does not count; None if it does."""
    action, mandate = context.action, context.observed.mandate
    if action.mandate_digest is None:
        mandates = context.observed.mandates
        return _Objection(
            "none_named", f"it names none of the session's {mandates}" if mandates else "it names none"
        )
    if mandate is None:
        return _Objection("absent", f"the session has no mandate {action.mandate_digest}")
    if "void" in mandate:
        return _Objection("ended", mandate["void"])
    if mandate["until_ms"] <= context.now_ms:
        return _Objection("over", f"the mandate counted until {rfc3339(mandate['until_ms'])}")
    intent_hash = action.governance_context and action.governance_context.original_intent_hash
    if intent_hash not in (None, mandate["task_hash"]):
        return _Objection("other_intent", "originalIntentHash is not the hash of the mandate's task")
    return None


def _list_uses(context: ActionContext) -> dict[str, Any]:
    """By digest what the agent used of counts that are not over, as MandateUses writes it and free to change;
    without the action's own use where a person has approved it."""
    stored = context.observed.remembered.get(MandateGate.name) or {"uses": {}}
    own = shorten_id(context.action.action_id) if context.approved else None
    uses = {}
    for digest, value in stored["uses"].items():
        if value["until"] <= context.now_ms:
            continue
        used, waiting = dict(value["used"]), dict(value["waiting"])
        for position in waiting.pop(own, ()):
            used[position] -= 1
        used = {position: calls for position, calls in used.items() if calls}
        uses[digest] = {"until": value["until"], "used": used, "waiting": waiting}
    return uses


class _NamedPlaces(NamedTuple):
    """By a mandate's digest the place of its tool that has the action and is counted, of those that do not
    object; and the first objection."""

    places: Mapping[str, str]
    objection: _Objection | None


def _find_places(context: ActionContext, uses: Mapping[str, Any]) -> _NamedPlaces:
    """By which tools of its own and of the mandates above it an action lies within its mandate. `uses`: as
    `_list_uses` gives it."""
    mandate: Mapping[str, Any] = context.observed.mandate or {"scopes": ()}
    others = mandate.get("used_by_others") or {}
    places: dict[str, str] = {}
    objections = []
    for level, scope in enumerate(mandate["scopes"]):
        digest = scope["digest"]
        own = uses[digest]["used"] if digest in uses else {}
        position = _find_place(context, level, scope, (own, others.get(digest, {})))
        if isinstance(position, str) and digest not in uses and len(uses.keys() | places) >= MOST_COUNTED:
            text = f"the session keeps the counts of {MOST_COUNTED} mandates of the agent already"
            position = _Objection("count", text, level or None)
        if isinstance(position, _Objection):
            objections.append(position)
        elif position is not None:
            places[digest] = position
    return _NamedPlaces(places, objections[0] if objections else None)


def _find_place(
    context: ActionContext, level: int, scope: Mapping[str, Any], used: tuple[Mapping[str, int], ...]
) -> str | _Objection | None:
    """The place of the counted tool that has the action, None for a tool without a count, or in what the
    action lies outside. `used`: by whom however many calls were made."""
    tool, above = context.action.tool_name, level or None
    if scope["tools"] is None:
        return None
    objection = _Objection("tool", f"the task does not need the tool {tool}", above)
    for number, item in enumerate(scope["tools"]):
        if item["tool"] != tool:
            continue
        condition, position = item.get("condition", EVERY_CALL), f"0.{number}"
        if not _holds(context, condition, scope):
            if objection.why == "tool":
                objection = _Objection("condition", f"{tool} is for calls of which {condition}", above)
        elif "count" not in item:
            return None
        elif sum(by.get(position, 0) for by in used) < item["count"]:
            return position
        else:
            objection = _Objection("count", f"{tool} was used {item['count']} times already", above)
    return objection


def _holds(context: ActionContext, condition: str, scope: Mapping[str, Any]) -> bool:
    """Whether a condition holds for every type that the action may be of."""
    if condition == EVERY_CALL:
        return True
    scope_values = {MANDATE_VALUES: scope.get("values", {}), MANDATE_DESTINATIONS: scope["destinations"]}
    try:
        by_type = evaluate_by_type(context, compile_condition(condition), scope_values)
    except BundleError:
        return False
    return all(result.passed is True for results in by_type for result in results)


def _use(context: ActionContext, decided: Decided, uses: dict[str, Any]) -> None:
    """Count an action that is carried out, or may be, wherever a count in its mandate's chain has room for
    it, also where it lies outside by something else. `uses`: as `_list_uses` gives it, and is changed."""
    mandate = context.observed.mandate
    if mandate is None or not decided.may_happen:
        return
    places, ends = _find_places(context, uses).places, {}
    for scope in mandate["scopes"]:
        ends[scope["digest"]] = find_end_ms(mandate, scope)
    for digest, position in places.items():
        use = uses.setdefault(digest, {"until": ends[digest], "used": {}, "waiting": {}})
        use["used"][position] = use["used"].get(position, 0) + 1
        if not decided.carried:
            use["waiting"][shorten_id(context.action.action_id)] = [position]
        while len(use["waiting"]) > MOST_WAITING:
            del use["waiting"][next(iter(use["waiting"]))]
