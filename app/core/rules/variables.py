"""What a rule can speak of: the variables of an action, and the facts that may be cited beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from cel_expr_python import cel

from app.core.cel.values import INT64
from app.core.registry.facts import Fact, in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from app.core.registry.registry_entries import Agent, Tool
    from app.core.state.acknowledgement import Acknowledgement
    from topics.records import ProposedAction

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT, _INT, _BOOL, _ANY = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL, cel.Type.DYN
_OBJECT, _TEXTS = cel.Type.Map(_TEXT, _ANY), cel.Type.List(_TEXT)


class Judged(Protocol):
    """What a rule can see of an action; the context of the action pipeline has it all."""

    action: ProposedAction
    action_type: str
    tier: str
    mode: Literal["standard", "high_stakes"]
    rows: int
    reversible: bool | None
    agent: Agent | None
    tenant: str
    tool: Tool | None
    rows_before: int
    actions_before: int
    flags: Acknowledgement
    now_ms: int


class Variable(NamedTuple):
    """A variable's CEL type, and where an action has its value. A type of any may be null."""

    type: cel.Type
    value: Callable[[Judged], Any]


class Cited(NamedTuple):
    """What facts can be cited: all revisions by id, for whom, and the event's time in ms since 1970."""

    revisions: Mapping[str, Sequence[Fact]]
    tenant: str
    now_ms: int

    def fact(self, fact_id: str, at_ms: int) -> Fact | None:
        """The revision that speaks of that moment; None when none does."""
        return in_force(self.revisions.get(fact_id, ()), self.tenant, at_ms)


def _governance(context: Judged) -> dict[str, Any]:
    given = context.action.governance_context
    return {} if given is None else given.model_dump(by_alias=True, exclude_none=True)


VARIABLES: dict[str, Variable] = {
    "action.id": Variable(_TEXT, lambda it: it.action.action_id),
    "action.tool": Variable(_TEXT, lambda it: it.action.tool_name),
    "action.tool_description": Variable(_ANY, lambda it: it.action.tool_description),
    "action.type": Variable(_TEXT, lambda it: it.action_type),
    "action.tier": Variable(_TEXT, lambda it: it.tier),
    "action.mode": Variable(_TEXT, lambda it: it.mode),
    "action.rows": Variable(_INT, lambda it: _int64(it.rows)),
    "action.reversible": Variable(_ANY, lambda it: it.reversible),
    "action.reasoning": Variable(_ANY, lambda it: it.action.reasoning),
    "action.delegate_to": Variable(_ANY, lambda it: it.action.delegate_to),
    "action.acknowledged_flags": Variable(_TEXTS, lambda it: it.action.acknowledged_flags or []),
    "action.governanceContext": Variable(_OBJECT, _governance),
    "agent.id": Variable(_TEXT, lambda it: it.action.agent_id),
    "agent.tenant": Variable(_TEXT, lambda it: it.tenant),
    "agent.tier": Variable(_ANY, lambda it: None if it.agent is None else it.agent.tier),
    "tool.registered": Variable(_BOOL, lambda it: it.tool is not None),
    "session.id": Variable(_TEXT, lambda it: it.action.session_id),
    "session.aggregateRowsAffected": Variable(_INT, lambda it: _int64(it.rows_before + it.rows)),
    "session.aggregateActionCount": Variable(_INT, lambda it: _int64(it.actions_before + 1)),
    "session.unacknowledged_flags": Variable(_TEXTS, lambda it: list(it.flags.outstanding)),
    "now": Variable(cel.Type.TIMESTAMP, lambda it: moment(it.now_ms)),
    "action.parameters": Variable(_OBJECT, lambda it: it.action.parameters),
}
"""In the order in which they take their share of the bounds: what a caller can fill at will comes last."""


def known_as(names: Collection[str]) -> dict[str, Variable]:
    """These variables, in the order of the bounds."""
    return {name: known for name, known in VARIABLES.items() if name in names}


def variables_of(context: Judged, variables: Mapping[str, Variable]) -> dict[str, Any]:
    """The values of these variables."""
    return {name: known.value(context) for name, known in variables.items()}


def moment(at_ms: int) -> datetime:
    """A CEL timestamp of ms since 1970."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def milliseconds(at: datetime) -> int:
    """The other way round, rounded down."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _int64(number: int) -> int:
    """A count as CEL's int can hold it: beyond that, every comparison with a threshold comes out the same."""
    return min(number, INT64 - 1)
