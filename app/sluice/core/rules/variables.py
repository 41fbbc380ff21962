"""What a rule can use: the variables of an action, and the facts that the action may cite."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from cel_expr_python import cel

from sluice.core.cel.cel_values import INT64
from sluice.core.cel.language import Activation, ExpressionError, Failure, WorkBudget
from sluice.core.registry.facts import Fact, find_in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sluice.core.cel.language import Expression, Language
    from sluice.core.registry.limits import Limit
    from sluice.core.registry.registry_entries import Agent, Tool
    from sluice.core.rules.rule import FactReference
    from sluice.core.state.acknowledgement import Acknowledgement
    from sluice.core.state.limit_usage import LimitSeen
    from sluice.core.state.recent_retrieval import ReadKind, ReadTally
    from sluice.detection.call_inspection import Inspection
    from sluice_topics.records import ProposedAction

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT, _INT, _BOOL, _ANY = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL, cel.Type.DYN
_OBJECT, _TEXTS = cel.Type.Map(_TEXT, _ANY), cel.Type.List(_TEXT)


class PlannedInput(Protocol):
    """What a rule can see of what policy and registry settle."""

    @property
    def agent_id(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def action_type(self) -> str: ...
    @property
    def tier(self) -> str: ...
    @property
    def mode(self) -> Literal["standard", "high_stakes"]: ...
    @property
    def reversible(self) -> bool | None: ...
    @property
    def agent(self) -> Agent | None: ...
    @property
    def tenant(self) -> str: ...
    @property
    def tool(self) -> Tool | None: ...
    @property
    def judges_destinations(self) -> bool: ...
    @property
    def limits(self) -> tuple[Limit, ...]: ...


class SessionInput(Protocol):
    """What a rule can see of an action's session."""

    @property
    def read(self) -> Mapping[str, ReadTally]: ...
    @property
    def mandate(self) -> Mapping[str, Any] | None: ...
    @property
    def limits(self) -> Mapping[str, LimitSeen] | None: ...


class ActionInput(Protocol):
    """What a rule can see of an action; the context of the action pipeline has it all."""

    @property
    def plan(self) -> PlannedInput: ...

    action: ProposedAction

    @property
    def observed(self) -> SessionInput: ...

    rows: int
    session_rows: int
    session_actions: int
    read_untrusted: bool
    flags: Acknowledgement
    now_ms: int

    def inspect(self) -> Inspection:
        """What Gate 1 finds in its parameters."""


class Variable(NamedTuple):
    """A variable's CEL type, and where an action has its value. A type of any may be null. `planned`: the
    value is the plan's, so it is the same for every action of a plan. `quick`: the value where it is within
    CEL's bounds; None: `value` itself."""

    type: cel.Type
    value: Callable[[ActionInput], Any]
    planned: bool = False
    quick: Callable[[ActionInput], Any] | None = None


class Cited(NamedTuple):
    """What facts can be cited: all revisions by id, for whom, and the event's time in ms since 1970."""

    revisions: Mapping[str, Sequence[Fact]]
    tenant: str
    now_ms: int

    def fact(self, fact_id: str, at_ms: int) -> Fact | None:
        """The revision that speaks of that moment; None when none does."""
        return find_in_force(self.revisions.get(fact_id, ()), self.tenant, at_ms)


def _governance(context: ActionInput) -> dict[str, Any]:
    governance = context.action.governance_context
    return {} if governance is None else governance.model_dump(by_alias=True, exclude_none=True)


def _read(kind: ReadKind) -> Variable:
    """How many times content of this kind came into the session."""
    return Variable(
        _INT, lambda it: min(it.observed.read[kind].times, _MOST) if kind in it.observed.read else 0
    )


def find_mandate_in_force(context: ActionInput) -> Mapping[str, Any] | None:
    """The mandate that the action names, as the session has it (MandateSeen); None where there is none, its
    time is over, or somebody has ended it."""
    mandate = context.observed.mandate
    if mandate is None or "void" in mandate or mandate["until_ms"] <= context.now_ms:
        return None
    return mandate


def _read_own_scope(context: ActionInput, name: str, default: Any) -> Any:
    mandate = find_mandate_in_force(context)
    return default if mandate is None else mandate["scopes"][0].get(name, default)


def _show_limits(context: ActionInput) -> dict[str, dict[str, float]]:
    """By their ids what the partition's shares of limits were before the action, in the entries' units. One
    for which there is no room to count is used up."""
    usage, shown = context.observed.limits or {}, {}
    for limit in context.plan.limits:
        if limit.id in usage:
            share = usage[limit.id].share
            used = usage[limit.id].used
            used = max(share, 1) if used is None else used
            shown[limit.id] = {
                "used": limit.show(used),
                "share": limit.show(share),
                "left": limit.show(max(0, share - used)),
            }
    return shown


def _plan_variable(of_type: cel.Type, name: str) -> Variable:
    return Variable(of_type, attrgetter(f"plan.{name}"), planned=True)


_MOST = INT64 - 1
"""The largest count that CEL's int can hold: beyond it, every comparison with a threshold comes out the
same."""
ACTION_TYPE = "action.type"
LIMITS = "limits"
MANDATE_DESTINATIONS, MANDATE_VALUES = "mandate.destinations", "mandate.values"
VARIABLES: dict[str, Variable] = {
    "action.id": Variable(_TEXT, attrgetter("action.action_id")),
    "action.tool": _plan_variable(_TEXT, "tool_name"),
    "action.tool_description": Variable(_ANY, attrgetter("action.tool_description")),
    ACTION_TYPE: _plan_variable(_TEXT, "action_type"),
    "action.tier": _plan_variable(_TEXT, "tier"),
    "action.mode": _plan_variable(_TEXT, "mode"),
    "action.rows": Variable(_INT, lambda it: min(it.rows, _MOST)),
    "action.reversible": _plan_variable(_ANY, "reversible"),
    "action.reasoning": Variable(_ANY, attrgetter("action.reasoning")),
    "action.delegate_to": Variable(_ANY, attrgetter("action.delegate_to")),
    "action.acknowledged_flags": Variable(_TEXTS, lambda it: it.action.acknowledged_flags or []),
    "action.governanceContext": Variable(_OBJECT, _governance),
    "agent.id": _plan_variable(_TEXT, "agent_id"),
    "agent.tenant": _plan_variable(_TEXT, "tenant"),
    "agent.tier": Variable(
        _ANY, lambda it: None if it.plan.agent is None else it.plan.agent.tier, planned=True
    ),
    "tool.destinations_judged": _plan_variable(_BOOL, "judges_destinations"),
    "tool.registered": Variable(_BOOL, lambda it: it.plan.tool is not None, planned=True),
    "session.id": Variable(_TEXT, attrgetter("action.session_id")),
    "session.aggregateRowsAffected": Variable(
        _INT, lambda it: min(it.session_rows, _MOST), quick=attrgetter("session_rows")
    ),
    "session.aggregateActionCount": Variable(
        _INT, lambda it: min(it.session_actions, _MOST), quick=attrgetter("session_actions")
    ),
    "session.unacknowledged_flags": Variable(_TEXTS, lambda it: list(it.flags.outstanding)),
    "session.read_untrusted": Variable(_BOOL, attrgetter("read_untrusted")),
    "session.read_external": _read("external"),
    "session.read_flagged": _read("flagged"),
    "session.writes_held": _read("held"),
    "mandate.present": Variable(_BOOL, lambda it: find_mandate_in_force(it) is not None),
    "mandate.task_hash": Variable(_ANY, lambda it: (find_mandate_in_force(it) or {}).get("task_hash")),
    "now": Variable(cel.Type.TIMESTAMP, lambda it: moment(it.now_ms)),
    "reading.patterns": Variable(_TEXTS, lambda it: sorted({hit.id for hit in it.inspect().hits})),
    "reading.complete": Variable(_BOOL, lambda it: it.inspect().inconclusive is None),
    LIMITS: Variable(_OBJECT, _show_limits),
    MANDATE_DESTINATIONS: Variable(_TEXTS, lambda it: _read_own_scope(it, "destinations", [])),
    MANDATE_VALUES: Variable(_OBJECT, lambda it: _read_own_scope(it, "values", {})),
    "action.parameters": Variable(_OBJECT, attrgetter("action.parameters")),
}
"""In the order in which they take their share of the bounds: what a caller can fill at will comes last."""


def select_variables(names: Collection[str]) -> dict[str, Variable]:
    """These variables, in the order of the bounds."""
    return {name: variable for name, variable in VARIABLES.items() if name in names}


def collect_variables(context: ActionInput, variables: Mapping[str, Variable]) -> dict[str, Any]:
    """The values of these variables."""
    return {name: variable.value(context) for name, variable in variables.items()}


def moment(at_ms: int) -> datetime:
    """A CEL timestamp of ms since 1970."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def milliseconds(at: datetime) -> int:
    """The other way round, rounded down."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


_MAX_NAMED_ID = 120


class Resolved(NamedTuple):
    """By alias: the facts that were found, and why the others were not."""

    facts: Mapping[str, Fact]
    missing: Mapping[str, str]


NO_FACTS = Resolved({}, {})


class Citation(NamedTuple):
    """A compiled reference; `id_from` is None where the id is written down, `valid_at` where now is meant."""

    fact_id: str | None
    id_from: Expression | None
    valid_at: Expression | None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What must be evaluated to know which fact is meant."""
        return tuple(expression for expression in (self.id_from, self.valid_at) if expression is not None)


def citation(language: Language, alias: str, reference: FactReference) -> Citation:
    """Raises ExpressionError when one of the reference's expressions is refused; it names the field."""
    moment = None if reference.valid_at_from is None else f"timestamp({reference.valid_at_from}\n)"
    return Citation(
        reference.id,
        _compile(language, f"facts.{alias}.id_from", reference.id_from, ("STRING", "DYN")),
        _compile(language, f"facts.{alias}.valid_at_from", moment, ("TIMESTAMP",)),
    )


def _compile(language: Language, field: str, source: str | None, types: tuple[str, ...]) -> Expression | None:
    if source is None:
        return None
    try:
        return language.compile(source, types)
    except ExpressionError as error:
        raise ExpressionError(f"{field}: {error.message}") from None


class Citations:
    """All facts that the rules of a bundle may cite, by alias."""

    def __init__(self, language: Language, citations: Mapping[str, Citation]) -> None:
        """Compiled in this language."""
        self._language = language
        self._citations = citations
        self.expressions = [
            expression for citation in citations.values() for expression in citation.expressions
        ]
        """All expressions in the references."""
        self._together = WorkBudget(self.expressions)

    def resolve(self, variables: Mapping[str, Any], cited: Cited) -> Resolved:
        """The revisions valid at each reference's time, as the registry knows them."""
        if not self._citations:
            return NO_FACTS
        facts: dict[str, Fact] = {}
        missing: dict[str, str] = {}
        asked = Activation(self._language, self._together, variables) if self.expressions else None
        for alias, citation in self._citations.items():
            fact = _resolve(citation, asked, cited)
            if isinstance(fact, Failure):
                missing[alias] = f"unresolved_fact: {alias}: {fact.message}"
            else:
                facts[alias] = fact
        return Resolved(facts, missing)


def _resolve(citation: Citation, asked: Activation | None, cited: Cited) -> Fact | Failure:
    fact_id, at_ms = citation.fact_id, cited.now_ms
    if asked is not None and citation.id_from is not None:
        fact_id = asked.evaluate_one(citation.id_from)
    if asked is not None and citation.valid_at is not None:
        moment = asked.evaluate_one(citation.valid_at)
        if not isinstance(moment, datetime):
            return moment if isinstance(moment, Failure) else Failure("valid_at_from yields no time")
        at_ms = milliseconds(moment)
    if not isinstance(fact_id, str):
        return fact_id if isinstance(fact_id, Failure) else Failure("id_from yields no text")
    fact = cited.fact(fact_id, at_ms)
    return fact or Failure(f"no revision of {fact_id[:_MAX_NAMED_ID]} is valid at that time")
