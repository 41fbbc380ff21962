"""Gate "destinations": where an action goes, and where that address, account or link was first seen.

A payment to the wrong account reads exactly like one to the right account. What tells them apart is where the
account comes from: a signed entry of the registry, a system of the organisation's own, a text that a stranger
wrote, or nowhere. A tool's entry says which parameters name a destination or an object
(sluice/core/registry/argument_roles.py), and whether what it returns is trusted. The session keeps the values
that came in as salted fingerprints (sluice/core/state/seen_values.py); the gate looks the action's own values
up among them. What is missing there counts as not known, never as trusted.

The gate holds, and never rejects by itself as shipped. It has its say only over tools whose entry has roles.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, Field

from sluice.core.actions.grading import PART, Graded, GradedBy, find_grading, grade_once
from sluice.core.actions.mandate import lies_within_mandate
from sluice.core.actions.model_questions import QuestionContext
from sluice.core.actions.stage import PASSED, Decided, ObjectionDetail, RememberingGate, StageResult
from sluice.core.foundation.clock import DAY_MS, rfc3339, span
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundles import BundlePart
from sluice.core.policy.gate_modes import GateMode, ModePart
from sluice.core.registry.argument_roles import MOST_ARGUMENTS, Argument
from sluice.core.registry.loading import HIGHEST_TIER
from sluice.core.state.remembered import GateMemory
from sluice.core.state.seen_values import NO_VALUES_SEEN, SeenUse, ValuesSeen
from sluice.core.state.usual import Lesson, UsualName
from sluice.text.plurals import count_noun
from sluice_topics.records.base import Tier  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.records.inputs import ActionType  # noqa: TC001 - as above
from sluice_topics.relaxations import Members, Scale, StricterWhen
from sluice_topics.values import (
    MAX_LEAF,
    Value,
    find_values,
    fingerprint,
    is_destination,
    read_domain,
    read_json_value,
    read_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.actions.stage import ActionContext, ActionPlan, Asking
    from sluice.core.policy.bundles import Bundle
    from sluice.core.state.session_view import SessionView
    from sluice.core.state.usual import UseCount
    from sluice_topics.records import ProposedAction

NAME = "destinations"
Origin = Literal[
    "task",
    "registry",
    "history",
    "trusted_result",
    "peers",
    "untainted",
    "untrusted_read",
    "unknown",
    "nowhere",
]
"""Where a value comes from. `task`: the action's mandate names it, and the action lies within the mandate.
`registry`: an entry of the agent or its tenant names it. `history`: the agent has sent there before, and it
was known otherwise then, or a person who approved that said for how long it is known.
`trusted_result`: a tool whose results are trusted returned it, under an enforcement point's signature.
`peers`: an agent with the same registered role has sent there. `untainted`: in nothing that came into the
session, and no stranger can have named it there: all that came in is trusted. `untrusted_read`: it stood only
in what is not trusted, or in a trusted result only after an agent of the session had used it itself.
`nowhere`: in nothing that came into the session. `unknown`: it was not found, and not all that came in is
known."""
Answer = Literal["pass", "advise", "ask", "deny"]
JudgedRole = Literal["destination", "object"]
GradedOrigin = Literal["untainted"]
"""Those against which nothing speaks but that nobody knows the value. Where anything came in that is not
trusted, a value may be a stranger's in other words or cut off, and that is a person's to judge."""
ANSWERS: tuple[Answer, ...] = get_args(Answer)
HARMLESS = """\
Somebody who is responsible for this agent, who sees this action and the origins of its values and has nothing
else to go by, would let it go where it goes without asking anybody. It is an ordinary step of work for the
agent's own users. What it sends, pays, shares or changes is small, or plainly meant for whoever gets it, and
could be made good if the destination were wrong. Nothing looks like a changed, mistyped or imitated address
or account, like an order that somebody else gave the agent, or like something kept from view. Where more must
be known to say so, the action does not comply."""
"""By which the grader judges an action to a destination that nobody knows."""
_MAY_BE_VALUE = re.compile(r"[^A-Za-z \-_'!?,]")
"""What every address, link and account has; most words and sentences have none of it."""
KIND_WORDS = {
    "email": "the address",
    "url": "the link",
    "iban": "the account",
    "account": "the account",
    "phone": "the telephone number",
    "handle": "the handle",
    "path": "the path",
    "id": "the id",
    "name": "the name",
}
_COMPILED = 1024
_REST = "$"
"""The path of all values beyond those that are looked up."""
_LONGEST_PATH = 80
_QUOTED = re.compile(r'\["(?:[^"\\]|\\.)*"\]')


class OriginAnswers(StrictModel):
    """What is done with an action by where its values come from: it passes, passes with an advice, waits for
    a person, or is denied. The strictest answer of all its values counts."""

    task: Annotated[Answer, Scale(ANSWERS, "a value of the mandate is answered {new}, not {old}")] = "pass"
    registry: Annotated[Answer, Scale(ANSWERS, "a value of the registry is answered {new}, not {old}")] = (
        "pass"
    )
    history: Annotated[
        Answer, Scale(ANSWERS, "a value that the agent usually uses is answered {new}, not {old}")
    ] = "pass"
    peers: Annotated[
        Answer, Scale(ANSWERS, "a value that agents of its role use is answered {new}, not {old}")
    ] = "pass"
    trusted_result: Annotated[
        Answer, Scale(ANSWERS, "a value of a trusted result is answered {new}, not {old}")
    ] = "pass"
    nowhere: Annotated[
        Answer, Scale(ANSWERS, "a value that was seen nowhere is answered {new}, not {old}")
    ] = "ask"
    untainted: Annotated[
        Answer,
        Scale(ANSWERS, "a new value that no stranger named is answered {new}, not {old}"),
    ] = "ask"
    untrusted_read: Annotated[
        Answer, Scale(ANSWERS, "a value that only strangers wrote is answered {new}, not {old}")
    ] = "ask"
    unknown: Annotated[
        Answer, Scale(ANSWERS, "a value of which the origin is not known is answered {new}, not {old}")
    ] = "ask"

    def answer(self, origin: Origin) -> Answer:
        """The answer for one value."""
        answer: Answer = getattr(self, origin)
        return answer


def _ship_tiers() -> dict[Tier, OriginAnswers]:
    """A new value in a session without strangers' text is asked about in T4 alone. There it is asked about
    too, because an agent can begin a new session, which has read nothing."""
    untainted = OriginAnswers(untainted="advise")
    return {"T2": untainted, "T3": untainted, "T4": OriginAnswers()}


def _judge_destinations() -> list[JudgedRole]:
    return ["destination"]


class DestinationPolicy(ModePart):
    """`tiers`: by the action's tier what is done; a tier that is not there passes everything. `action_types`:
    the same by type, in addition: the stricter answer counts. `roles`: whose values are looked up. What was
    used within `history_days` on `history_least_days` different days at least counts as usual.
    `graded_origins`: where all values that a person would be asked about come from these, the action's agent
    has no mandate in the session, nobody has used the values and no such question went to a person in the
    session before, the model of `grader` is asked first; if it finds the action harmless, the question
    becomes an advice."""

    objection = "an unknown destination"

    mode: Annotated[
        GateMode, Scale(get_args(GateMode), "an unknown destination is only {new}d, not {old}d")
    ] = "observe"
    tiers: Annotated[
        dict[Tier, OriginAnswers], Members("more", "destinations of {member} are no longer looked up")
    ] = Field(default_factory=_ship_tiers)
    action_types: Annotated[
        dict[ActionType, OriginAnswers], Members("more", "destinations of {member} have no stricter answer")
    ] = Field(default_factory=dict)
    roles: Annotated[
        list[JudgedRole],
        Field(min_length=1),
        Members("more", "values of the role {member} are not looked up"),
    ] = Field(default_factory=_judge_destinations)

    history_days: Annotated[
        int, Field(ge=1, le=3660), StricterWhen("lower", "what was used counts for {new} days, not {old}")
    ] = 180
    history_least_days: Annotated[
        int, Field(ge=1, le=366), StricterWhen("higher", "what was used on {new} days is usual, not on {old}")
    ] = 1

    graded_origins: Annotated[
        list[GradedOrigin], Members("fewer", "a model's word lets a value of the origin {member} pass")
    ] = Field(default_factory=list)

    def find_answers(self, plan: ActionPlan) -> list[OriginAnswers]:
        """Those that count for the actions of a plan."""
        matches = [
            self.action_types[action_type] for action_type in plan.types if action_type in self.action_types
        ]
        return [*matches, *([self.tiers[plan.tier]] if plan.tier in self.tiers else [])]


class ValueFinding(BaseModel):
    """A value that did not simply pass: the path of its parameter, its role and kind, where it comes from,
    and of one that was seen the source (a tool, an item, a memory) and how long before, in ms. `used_by`: the
    agent that used it before."""

    path: str
    role: str
    kind: str
    origin: Origin
    source: str | None = None
    seen_before_ms: int | None = None
    used_by: str | None = None


class DestinationDetail(ObjectionDetail):
    """`origins` counts the values that were looked up by where they come from; `values`: those that did not
    simply pass. `advice`: what the verdict says of them without holding the action up. `graded`: what a model
    made of the action, by whose word a question became an advice if it passed; `ungraded`: why the model's
    word did not count."""

    origins: Annotated[dict[str, int] | None, Field(title="destinations come from")] = None
    values: list[ValueFinding] | None = None
    advice: Annotated[str | None, Field(title="advice")] = None
    graded: Annotated[Graded | None, Field(title="graded")] = None
    ungraded: Annotated[str | None, Field(title="not graded")] = None


class DestinationMemory(BaseModel):
    """What is remembered of an agent in a session: that a person was to judge where it sends. No model is
    asked then."""

    asks: Literal["person"]


class NamedValue(NamedTuple):
    """A value that an action names: the role and path of its parameter (with `#` and a number where one text
    holds several), and the value."""

    role: JudgedRole
    path: str
    value: Value


NamedValues = tuple[list[NamedValue], bool]
"""The values that an action names, and whether these are all."""


def find_named_values(plan: ActionPlan, action: ProposedAction) -> NamedValues:
    """The destinations and objects that an action names, and whether these are all. A text without a role
    that is an address, a link or an account is a destination too: else a parameter that nobody thought of
    would be a way round."""
    tool, named_values = plan.tool, list[NamedValue]()
    if tool is None or tool.roles is None:
        return named_values, True
    for argument in tool.roles.read(action.parameters):
        role, _, value = argument
        if role in ("destination", "object"):
            named_values += read_argument(argument, role)
        elif not role and isinstance(value, str) and _MAY_BE_VALUE.search(value):
            read = read_argument(argument, "destination")
            named_values += [named_value for named_value in read if is_destination(named_value.value)]
        else:
            continue
        if len(named_values) > MOST_ARGUMENTS:
            return named_values[:MOST_ARGUMENTS], False
    return named_values, True


def read_argument(argument: Argument, role: JudgedRole) -> list[NamedValue]:
    """The value of an argument, or each of those that its text lists. A text that is one value for us may be
    a list for the tool: what reads as a destination of its own behind a separator is looked up too."""
    path, written = argument.path, argument.value
    if not isinstance(written, str):
        return [NamedValue(role, path, read_json_value(written) or Value("name", ""))]
    values = (_list_in_short if len(written) <= MAX_LEAF else _list_values)(written)
    if len(values) == 1:
        return [NamedValue(role, path, values[0])]
    return [NamedValue(role, f"{path}#{number + 1}", value) for number, value in enumerate(values)]


def _list_values(text: str) -> tuple[Value, ...]:
    whole = read_value(text)
    parts = [part for part in _SEPARATORS.split(text) if part] if len(text) <= LONGEST_LIST else []
    every = {whole: None}
    if whole.kind == "name":
        listed = [value for value in find_values(text) if value.kind != "name"] if parts else []
        split = [read_value(part) for part in _ITEMS.split(text) if part.strip()] if len(parts) > 1 else []
        every = dict.fromkeys([*listed, *split]) or every
    elif len(parts) > 1:
        further = (read_value(part) for part in parts[1:] if _MARKED.search(part))
        every |= dict.fromkeys(
            value for value in further if is_destination(value) or value.text.startswith("/")
        )
    return tuple(every)


_list_in_short = lru_cache(maxsize=_COMPILED)(_list_values)


LONGEST_LIST = 4096
"""Characters; a longer text is not split into the values that it may list."""
_SEPARATORS = re.compile(r"[\s,;|]+")
_MARKED = re.compile(r"[@/:.\\]")
"""What a part that is an address, a link or a path has at the least."""
_ITEMS = re.compile(r"[,;|\n]")


def look_up_values(
    view: SessionView,
    plan: ActionPlan,
    action: ProposedAction,
    uses: Mapping[UsualName, UseCount],
) -> ValuesSeen:
    """What session and past uses say of the values that an action names; without a key nothing is known."""
    key = plan.values_key
    if key is None:
        return NO_VALUES_SEEN
    named, whole = find_named_values(plan, action)
    prints = {named_value.path: fingerprint(key, named_value.value) for named_value in named}
    observed = view.look_up_values(plan.owner, prints)
    used = _find_uses(plan, named, prints, uses, view.now) if uses else {}
    return observed._replace(
        complete=observed.complete and whole, uses=used, prints=prints, named=(named, whole)
    )


def _find_uses(
    plan: ActionPlan,
    named: Sequence[NamedValue],
    prints: Mapping[str, bytes],
    uses: Mapping[UsualName, UseCount],
    now_ms: int,
) -> dict[str, SeenUse]:
    """By path the use of the agent itself, else the latest one of its peers; its own of which nothing is left
    but an answer that is over comes last. An answer is for the agent alone."""
    matches: dict[str, SeenUse] = {}
    agent = plan.agent
    if agent is None:
        return matches
    users = (agent.id, *plan.registry.find_peers(agent))
    for named_value in named:
        counts = []
        for user in users:
            name = UsualName(
                plan.tenant, user, plan.tool_name, named_value.role, prints[named_value.path].hex()
            )
            count, entry = uses.get(name), plan.registry.agents.get(user)
            if count is None or entry is None:
                continue
            left = count.drop_before(entry.usual_since_ms)
            left = left if user == agent.id else left.drop_answer()
            if not left.is_forgotten:
                bounds = left.times, left.days, left.last_ms, left.revision
                use = SeenUse(user, *name[3:], *bounds, left.answered_ms, left.until_ms)
                counts.append(use)
                if user == agent.id and (use.times or use.until_ms > now_ms):
                    break
        if counts:
            matches[named_value.path] = max(
                counts, key=lambda use: (use.agent == agent.id and bool(use.times), use.last_ms)
            )
    return matches


def choose_lesson(context: ActionContext, known_until_ms: int = 0, opened_ms: int = 0) -> Lesson | None:
    """What a carried-out action will teach once its outcome is signed: by role the fingerprints of its values
    that the registry or the mandate names. Where a person approved it and said until when its values are
    known (ms; 0: nobody did), those of the others that the person was asked about are known until then.
    `opened_ms`: when the person was asked."""
    observed = context.observed.values
    if observed is None or not observed.prints:
        return None
    plan, lesson, answered = context.plan, dict[str, list[str]](), dict[str, list[str]]()
    registered, mandated = find_registered(plan), find_mandated(context)
    asked = _list_asked(context, opened_ms) if known_until_ms else ()
    for named_value in _list_named(context)[0]:
        if registered.names(named_value.value) or mandated.names(named_value.value):
            lesson.setdefault(named_value.role, []).append(observed.prints[named_value.path].hex())
        elif named_value.path in asked:
            answered.setdefault(named_value.role, []).append(observed.prints[named_value.path].hex())
    if answered:
        return Lesson(plan.tool_name, lesson, answered, known_until_ms)
    return Lesson(plan.tool_name, lesson) if lesson else None


def _list_asked(context: ActionContext, opened_ms: int) -> frozenset[str]:
    """The paths of the values of an approved action that do not simply pass, neither now nor by what was
    known when the person was asked: one that was known then, and ceased to be while the action waited, was
    not shown."""
    now, then = list_origins(context), list_origins(replace(context, now_ms=opened_ms))
    passed = {judged_value.named.path for judged_value in (*now, *then) if judged_value.answer == "pass"}
    return frozenset(judged_value.named.path for judged_value in now) - passed


class JudgedValue(NamedTuple):
    """A value with its origin and the answer for it."""

    named: NamedValue
    origin: Origin
    answer: Answer


def _judge(plan: ActionPlan, policy: DestinationPolicy, context: ActionContext) -> list[JudgedValue]:
    observed = context.observed.values or NO_VALUES_SEEN
    usual = _find_usual(policy, context)
    sources = _Sources(
        find_mandated(context), find_registered(plan), observed, usual, _is_untainted(context, observed)
    )
    answers = policy.find_answers(plan)
    named, whole = _list_named(context)
    judged = []
    for named_value in named:
        if named_value.role in policy.roles:
            origin = sources.find_origin(named_value)
            judged.append(JudgedValue(named_value, origin, _find_strictest(answers, origin)))
    if not whole:
        rest = NamedValue("destination", _REST, Value("name", ""))
        judged.append(JudgedValue(rest, "unknown", _find_strictest(answers, "unknown")))
    return judged


def list_origins(context: ActionContext) -> list[JudgedValue]:
    """The values of an action that are looked up, with their origins; none where the gate does not look."""
    plan = context.plan
    return _judge(plan, plan.bundle.parts[NAME], context) if plan.looks_up_values else []


def get_named_values(observed: ValuesSeen | None) -> NamedValues | None:
    """What an action names, where it was read to look it up; None where a verdict says what was seen."""
    named: NamedValues | None = None if observed is None else observed.named
    return named


def _list_named(context: ActionContext) -> NamedValues:
    """An action's named values, as `find_named_values` has them, read again where they were not yet."""
    return get_named_values(context.observed.values) or find_named_values(context.plan, context.action)


def _find_strictest(answers: Sequence[OriginAnswers], origin: Origin) -> Answer:
    return max((answer.answer(origin) for answer in answers), key=ANSWERS.index, default="pass")


class _Sources(NamedTuple):
    """All that can say where the values of one action come from; `usual`: by path who uses the value;
    `untainted`: no stranger's text can have named one."""

    mandated: Registered
    registered: Registered
    observed: ValuesSeen
    usual: Mapping[str, str]
    untainted: bool

    def find_origin(self, named: NamedValue) -> Origin:
        """The best known place of a value."""
        if named.value.kind == "unclear":
            return "unknown"
        used, value = self.usual.get(named.path), self.observed.values.get(named.path)
        places: tuple[tuple[Origin, bool], ...] = (
            ("task", self.mandated.names(named.value)),
            ("registry", self.registered.names(named.value)),
            ("history", used == "history"),
            ("trusted_result", value is not None and value.trusted),
            ("peers", used == "peers"),
            ("untainted", self.untainted),
            ("untrusted_read", value is not None),
            ("nowhere", self.observed.complete),
        )
        return next((origin for origin, holds in places if holds), "unknown")


def _find_usual(policy: DestinationPolicy, context: ActionContext) -> dict[str, str]:
    """By path "history" where the agent itself, "peers" where another of its role uses the value often and
    lately enough, or where a person's answer for the agent still counts, but for the highest tier."""
    observed, agent = context.observed.values, context.plan.agent
    if observed is None or not observed.uses or agent is None:
        return {}
    since_ms = context.now_ms - policy.history_days * DAY_MS
    may_be_answered = context.plan.tier != HIGHEST_TIER
    return {
        path: "history" if use.agent == agent.id else "peers"
        for path, use in observed.uses.items()
        if (use.last_ms >= since_ms and use.days >= policy.history_least_days)
        or (may_be_answered and use.agent == agent.id and context.now_ms < use.until_ms)
    }


def _is_untainted(context: ActionContext, observed: ValuesSeen) -> bool:
    """Whether no stranger's text can have led to the action: none came into its session, and no other agent,
    whose session is not known, has called this one or may call it."""
    chain, agent = context.action.governance_context, context.plan.agent
    calls_itself = chain is None or (
        not chain.chain_depth
        and not chain.grants
        and chain.parent_agent_id is None
        and chain.root_agent_id in (None, context.action.agent_id)
    )
    if agent is None or agent.callers:
        return False
    return calls_itself and observed.complete and observed.untainted and not context.observed.read


_IS_ROOT = re.compile(r"[^?#]*")
"""A link with a query or a fragment stands for itself alone."""


class Registered:
    """The destinations that entries name: exact values, addresses of a domain, and what is below a host or a
    folder."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._domains = {read_domain(text[2:]) for text in texts if text.startswith("*@")} - {""}
        values = [read_value(text) for text in texts if not text.startswith("*@")]
        self._values = frozenset(value.text for value in values)
        self._roots = {
            kind: tuple(
                f"{value.text.rstrip('/')}/"
                for value in values
                if value.kind == kind and _IS_ROOT.fullmatch(value.text)
            )
            for kind in ("url", "path")
        }

    def names(self, value: Value) -> bool:
        """Whether an entry names the value."""
        if value.kind == "unclear":
            return False
        if value.text in self._values:
            return True
        if value.kind == "email":
            return value.text.rpartition("@")[2] in self._domains
        return value.text.startswith(self._roots.get(value.kind, ()))


def find_mandated(context: ActionContext) -> Registered:
    """The destinations that the action's mandate names, and every mandate above it with it; none where the
    action lies outside it: a mandate for one tool says nothing of where another goes."""
    mandate = context.observed.mandate
    if mandate is None:
        return _NONE_NAMED
    scopes = [frozenset(scope["destinations"]) for scope in mandate["scopes"]]
    named = tuple(sorted(frozenset.intersection(*scopes)))
    return _compile_registered(named) if named and lies_within_mandate(context) else _NONE_NAMED


def judges_destinations(plan: ActionPlan) -> bool | None:
    """Whether the gate may hold up the actions of a plan; None: it does not look at where they go, because it
    does not run, the tool has no roles, or the bundle has no answer for tier and type."""
    if NAME not in plan.bundle.stages or plan.tool is None or plan.tool.roles is None:
        return None
    policy: DestinationPolicy = plan.bundle.parts[NAME]
    return policy.mode == "enforce" if policy.find_answers(plan) else None


@lru_cache(maxsize=_COMPILED)
def _compile_registered(texts: tuple[str, ...]) -> Registered:
    return Registered(texts)


_NONE_NAMED = Registered(())


def find_registered(plan: ActionPlan) -> Registered:
    """The destinations that the entries of the agent and its tenant name."""
    own = () if plan.agent is None else plan.agent.destinations
    return _compile_registered((*own, *plan.org.destinations))


class Destinations(RememberingGate):
    """Asks a person where a destination comes from nowhere or from strangers alone."""

    name = NAME
    detail = DestinationDetail
    memory = DestinationMemory
    always_speaks = True
    grants_cover = False
    decides_unanswered = True
    part = BundlePart(
        name, DestinationPolicy, DestinationPolicy(), asks=lambda part: bool(part.graded_origins)
    )

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """The reason names the first value with the strictest answer."""
        plan = context.plan
        policy: DestinationPolicy = plan.bundle.parts[self.name]
        if not plan.looks_up_values:
            return PASSED
        judged = _judge(plan, policy, context)
        if not judged:
            return PASSED
        origins: dict[str, int] = {}
        for judged_value in judged:
            origins[judged_value.origin] = origins.get(judged_value.origin, 0) + 1
        worst = max(judged, key=lambda value: ANSWERS.index(value.answer))
        if worst.answer == "pass":
            return StageResult("pass", None, {"origins": origins})
        values = [_describe_value(value, context) for value in judged if value.answer != "pass"]
        detail: dict[str, Any] = {"origins": origins, "values": values}
        sentence = _describe_sentence(worst, context)
        if len(values) > 1:
            sentence += (
                f"; {count_noun(len(values) - 1, 'other value is', 'other values are')} asked about too"
            )
        if worst.answer == "advise":
            return StageResult("pass", None, {**detail, "advice": sentence})
        outcome: Literal["block", "escalate"] = "block" if worst.answer == "deny" else "escalate"
        objecting = StageResult(outcome, f"{_CODES[worst.origin]}: {sentence}", detail)
        if outcome == "escalate" and policy.graded_origins:
            context.asks_destination = "person"
            if _may_be_graded(policy, judged, context):
                return _grade(objecting, sentence, judged, context)
        return objecting

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass for tools without roles, and where the bundle has no answer for tier and type."""
        return None if plan.looks_up_values else PASSED

    def may_remember(self, bundle: Bundle) -> bool:
        """Whether a model may be asked in a person's place: else there is nothing to keep it from."""
        policy: DestinationPolicy = bundle.parts[self.name]
        return bool(policy.graded_origins)

    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """That a person was to judge a destination, for as long as the session is remembered: else the agent
        could try other wordings until the model says yes. What the model let pass counts too where a person
        judges the action for another reason."""
        asks = context.asks_destination
        left = asks == "person" or (asks == "model" and decided.real == "ESCALATE")
        if not left and NAME not in context.observed.remembered:
            return None
        return GateMemory(context.now_ms + DAY_MS, {"asks": "person"})


def _may_be_graded(policy: DestinationPolicy, judged: Sequence[JudgedValue], context: ActionContext) -> bool:
    """Whether a model's word may take the place of a person's: the bundle says so, and nothing objects. A
    mandate that names other destinations objects, and so does a use that counts no longer. Who waits for a
    person anyhow is asked about once. A model is not tried again where a person was to judge before in the
    session, and never about an agent of which nothing can be remembered."""
    observed, objecting = (
        context.observed,
        [judged_value for judged_value in judged if judged_value.answer == "ask"],
    )
    if context.plan.agent is None or context.escalated is not None or NAME in observed.remembered:
        return False
    if context.action.mandate_digest is not None or observed.mandates:
        return False
    if find_grading(context).state == "governed":
        return False
    used = {} if observed.values is None else observed.values.uses
    return all(
        judged_value.origin in policy.graded_origins and judged_value.named.path not in used
        for judged_value in objecting
    )


def _grade(
    objecting: StageResult, sentence: str, judged: Sequence[JudgedValue], context: ActionContext
) -> Asking:
    """The objection, or an advice in its place if the grader finds the action harmless. Without an answer
    that counts the objection stands: whatever the mode, the question is the stricter of the two. The model
    sees nothing of what the agent says of its action: an agent that wants a yes would write it for that."""
    grader = context.plan.bundle.written[PART]
    by = GradedBy(
        NAME, grader.budget_ms, grader.most_characters, QuestionContext(origins=describe_origins(judged))
    )
    grades = yield from grade_once(context, NAME, HARMLESS, by)
    graded = grades.graded
    if graded is None:
        fields: dict[str, Any] = {"ungraded": grades.why}
    else:
        fields = {"graded": graded.entry()}
    result = objecting._replace(detail={**objecting.detail, **fields}, entries=grades.entries)
    if graded is None or graded.outcome != "passed":
        return result
    context.asks_destination = "model"
    return result._replace(outcome="pass", reason=None, detail={**result.detail, "advice": sentence})


def describe_origins(judged: Sequence[JudgedValue]) -> tuple[dict[str, str], ...]:
    """Values with their origins, as a model is shown them."""
    return tuple(
        {
            "path": shorten_path(judged_value.named.path),
            "role": judged_value.named.role,
            "kind": judged_value.named.value.kind,
            "origin": judged_value.origin,
        }
        for judged_value in judged
    )


def list_noted_values(gates: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Of a verdict's gates, or of those that ran: the values that did not simply pass, as ValueFinding."""
    noted_values: Sequence[Mapping[str, Any]] | None
    noted_values = next((gate["detail"].get("values") for gate in gates if gate["gate"] == NAME), None)
    return noted_values or ()


_CODES: Mapping[Origin, str] = {
    "task": "mandated_destination",
    "history": "usual_destination",
    "peers": "usual_destination",
    "registry": "registered_destination",
    "trusted_result": "trusted_destination",
    "untainted": "new_destination",
    "untrusted_read": "untrusted_destination",
    "unknown": "unknown_destination",
    "nowhere": "new_destination",
}


def _describe_value(judged_value: JudgedValue, context: ActionContext) -> dict[str, Any]:
    named = judged_value.named
    finding: dict[str, Any] = {
        "path": named.path,
        "role": named.role,
        "kind": named.value.kind,
        "origin": judged_value.origin,
    }
    observed = context.observed.values or NO_VALUES_SEEN
    value, use = observed.values.get(named.path), observed.uses.get(named.path)
    if value is not None:
        finding |= {"source": value.source, "seen_before_ms": max(0, context.now_ms - value.at_ms)}
    return finding if use is None else {**finding, "used_by": use.agent}


def shorten_path(path: str) -> str:
    """A path for people. Names in it come from the caller: one that is more than a word is left out."""
    plain = _QUOTED.sub("[…]", path)
    return plain if len(plain) <= _LONGEST_PATH else f"{plain[:_LONGEST_PATH]}…"


def _describe_sentence(judged_value: JudgedValue, context: ActionContext) -> str:
    """One sentence for the person who is asked. The value itself stands in the action's parameters."""
    named = judged_value.named
    what = f"{KIND_WORDS.get(named.value.kind, 'the text')} at {shorten_path(named.path)}"
    if named.path == _REST:
        return f"this action names more than {MOST_ARGUMENTS} values, and the rest was not looked up"
    observed = context.observed.values or NO_VALUES_SEEN
    value, use = observed.values.get(named.path), observed.uses.get(named.path)
    who = context.action.agent_id
    never = f"{who} has never used it"
    if use is not None:
        answer = f"a person made it known until {rfc3339(use.until_ms)}"
        never = f"{use.agent} used it {use.times} times" if use.times else answer
    if judged_value.origin in ("task", "registry"):
        return f"{what} is named by the {'mandate' if judged_value.origin == 'task' else 'registry'}"
    if judged_value.origin == "untainted":
        return f"{what} was seen nowhere, and all that came into this session is trusted; {never}"
    if value is not None:
        ago = span(max(0, context.now_ms - value.at_ms))
        stood = "stands in" if value.trusted else "stood only in"
        after = ", after an agent of this session had used it itself" if value.written else ""
        return f"{what} {stood} {value.source}, which came in {ago} before{after}; {never}"
    if judged_value.origin == "nowhere":
        return f"{what} was seen nowhere: no entry names it, and nothing in this session holds it; {never}"
    return f"{what} was not found in this session, and not all that came in is known; {never}"
