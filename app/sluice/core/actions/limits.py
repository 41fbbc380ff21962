"""Gate "limits": how much an agent or a tenant may do within a window, over all its sessions.

A session's totals end with the session: three new ones of 400 rows each pass a limit of 1 000. A limit is an
entry of the registry (sluice/core/registry/limits.py) that is shared out over the partitions. Each partition
counts what it allows, and what waits for a person, against its own share and reads nobody else's count, so
together they never allow more without a person. What an action found is in its verdict (`session.limits`).

The gate comes early in a bundle, so that a person who is asked for another reason reads of a spent share too.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from sluice.core.actions.destinations import LONGEST_LIST, find_named_values, get_named_values, read_argument
from sluice.core.actions.rules import evaluate_by_type
from sluice.core.actions.stage import PASSED, Detail, Gate, StageResult
from sluice.core.foundation.canonical import MAX_SAFE_INTEGER
from sluice.core.foundation.clock import span
from sluice.core.foundation.errors import BundleError
from sluice.core.registry.argument_roles import MOST_ARGUMENTS, Argument, fold_names, split_path
from sluice.core.registry.limits import THOUSANDTHS
from sluice.core.rules.rule import Rule
from sluice.core.rules.rule_set import RuleSet
from sluice.core.rules.variables import LIMITS
from sluice.core.state.limit_usage import Charge, LimitsCharged, LimitsCorrected, Meter
from sluice.core.state.seen_values import FINGERPRINT_BYTES, find_tenant_key
from sluice_topics.values import Value, find_values, fingerprint, read_json_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.actions.destinations import NamedValues
    from sluice.core.actions.stage import ActionContext, ActionPlan
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.policy.policy import PointParts
    from sluice.core.registry.limits import Limit
    from sluice.core.state.book import Book
    from sluice.core.state.limit_usage import LimitSeen
    from sluice.core.state.seen_values import ValuesSeen
    from sluice.core.state.session_view import SessionView
    from sluice_topics.records import ProposedAction

NAME = "limits"
SPENT, UNKNOWN = "limit_share_spent", "limit_unknown"
COMPILED_CONDITIONS = 1024
KNOWN_BUNDLES = 64
NO_KEY = b"limits of an installation without a key of values"


class LimitFinding(BaseModel):
    """A limit that speaks against an action: its id, what was used before of the partition's share (null:
    there is no room to count), and what the action adds (null: that is not known)."""

    limit: str
    used: float | None
    share: float
    adds: float | None


class LimitsDetail(Detail):
    """Empty where no limit is about the action. `counted`: the ids of those that are; `spent`: those that
    speak against it."""

    counted: Annotated[list[str] | None, Field(title="counted by limit")] = None
    spent: list[LimitFinding] | None = None


class LimitUse(NamedTuple):
    """A limit that is about an action, and what the action adds to it; None: that is not known."""

    limit: Limit
    adds: int | None

    def is_over(self, observed: LimitSeen) -> bool:
        """Whether the action does not fit into what the partition may allow."""
        if self.adds is None or observed.used is None:
            return True
        return self.adds > 0 and observed.used + self.adds > observed.share


class Limits(Gate):
    """Asks a person, or denies, where a partition's share of a limit is spent."""

    name = NAME
    detail = LimitsDetail
    leaves_denials = True

    def evaluate(self, context: ActionContext) -> StageResult:
        """The reason names the first limit with the strictest answer."""
        uses, observed = list_uses(context), context.observed.limits or {}
        if not uses:
            return PASSED
        spent = [use for use in uses if use.limit.id not in observed or use.is_over(observed[use.limit.id])]
        detail: dict[str, Any] = {"counted": [use.limit.id for use in uses]}
        if not spent:
            return StageResult("pass", None, detail)
        detail["spent"] = [
            _describe_finding(limit_use, observed.get(limit_use.limit.id)) for limit_use in spent
        ]
        worst = next((limit_use for limit_use in spent if limit_use.limit.spec.outcome == "deny"), spent[0])
        outcome: Literal["block", "escalate"] = "block" if worst.limit.spec.outcome == "deny" else "escalate"
        return StageResult(outcome, _describe_reason(worst, observed.get(worst.limit.id), context), detail)

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where no limit can be about the plan's actions."""
        return None if plan.limits else PASSED


@lru_cache(maxsize=COMPILED_CONDITIONS)
def compile_condition(when: str) -> RuleSet:
    """A limit's condition. Raises BundleError."""
    return RuleSet([Rule(id="limit", type="invariant", reason="a limit", condition=when)])


def find_limits(plan: ActionPlan) -> tuple[Limit, ...]:
    """The limits that may be about a plan's actions: none where its bundle does not name the gate."""
    if NAME not in plan.bundle.stages or plan.agent is None:
        return ()
    return plan.registry.find_limits(plan.agent, plan.tool_name, plan.types)


def see_limits(
    parts: PointParts,
    book: Book,
    plan: ActionPlan,
    counted: Mapping[str, tuple[str, ...]],
    input_record: InputRecord,
) -> dict[str, LimitSeen]:
    """By their ids what the partition has counted for the limits of a plan at this moment. `counted`: the
    action's values, as of `fingerprint_counted`; `input_record`: of the action, or of the answer to it."""
    return look_at_limits(
        parts, book, plan, counted, (input_record.partition, input_record.timestamp_ms, None)
    )


def look_at_limits(
    parts: PointParts,
    book: Book,
    plan: ActionPlan,
    counted: Mapping[str, tuple[str, ...]],
    coordinates: tuple[int, int, int | None],
) -> dict[str, LimitSeen]:
    """By their ids what the partition has counted for the limits of a plan. `coordinates`: the partition, the
    moment in ms, and the offset of an action that may have counted already, of which nothing is taken for
    used; None: none has."""
    partition, at_ms, own = coordinates
    by_limit = {}
    for limit in plan.limits:
        meter = _make_meter(limit, plan)
        share = limit.share(partition, parts.limits.partitions)
        prints = counted.get(limit.id)
        observed = book.limits.see(meter, share, at_ms, prints, own)
        by_limit[limit.id] = observed if prints is None else observed._replace(values=prints)
    return by_limit


def _make_meter(limit: Limit, plan: ActionPlan) -> Meter:
    key = limit.tenant, limit.id, limit.find_subject(plan.agent_id)
    return Meter(key, limit.measure, limit.spec.window_ms)


def list_uses(context: ActionContext) -> tuple[LimitUse, ...]:
    """The limits that are about an action, with what it adds; worked out once for all that ask."""
    if context.limit_uses is None:
        context.limit_uses = tuple(
            LimitUse(limit, _measure(limit, context))
            for limit in context.plan.limits
            if _is_about(limit, context)
        )
    uses: tuple[LimitUse, ...] = context.limit_uses
    return uses


def _is_about(limit: Limit, context: ActionContext) -> bool:
    """Whether the limit's condition is not false of the action."""
    if limit.spec.when is None:
        return True
    try:
        condition = compile_condition(limit.spec.when)
    except BundleError:
        return True
    by_type = evaluate_by_type(context, condition)
    return any(result.passed is not False for same in by_type for result in same)


def _measure(limit: Limit, context: ActionContext) -> int | None:
    """What an action adds to a limit, as it is kept; None: that is not known."""
    spec = limit.spec
    if spec.sum == "rows":
        return context.rows
    if spec.sum is not None:
        return sum_numbers(_read_numbers(spec.sum, context.plan, context.action))
    if spec.distinct is not None:
        named = get_named_values(context.observed.values)
        is_known = read_distinct(spec.distinct, context.plan, context.action, named) is not None
        return (context.observed.limits or {})[limit.id].new if is_known else None
    return 1


def sum_numbers(numbers: list[Any] | None) -> int | None:
    """The sum in thousandths, each number rounded up; None where one of them is negative or no number."""
    if numbers is None:
        return None
    total = 0
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < float("inf"):
            return None
        total += int((Decimal(repr(number)) * THOUSANDTHS).to_integral_value(ROUND_CEILING))
    return total


def _read_numbers(path: str, plan: ActionPlan, action: ProposedAction) -> list[Any] | None:
    if path != "amount":
        return find_at(action.parameters, path)
    roles = None if plan.tool is None else plan.tool.roles
    if roles is None:
        return None
    amounts: list[Any] = []
    for role_path in roles.roles.amount:
        if not _is_absent(action.parameters, role_path):
            at_path = find_at(action.parameters, role_path)
            if at_path is None:
                return None
            amounts += at_path
    read = sum(argument.role == "amount" for argument in roles.read(action.parameters))
    return amounts if amounts and read == len(amounts) <= MOST_ARGUMENTS else None


def find_at(parameters: Mapping[str, Any], path: str) -> list[Any] | None:
    """The values at a JSON path of an action's parameters; None where one of the places is not there, where
    a tool may take another member for one of its names, or where there are too many."""
    values: list[Any] = [parameters]
    for name in split_path(path):
        below: list[Any] = []
        for value in values:
            if name == "*" and isinstance(value, list):
                below += value
            elif name != "*" and isinstance(value, dict) and _list_alike(value, name) == [name]:
                below.append(value[name])
            else:
                return None
        if len(below) > MOST_ARGUMENTS:
            return None
        values = below
    return values


def _list_alike(members: Mapping[str, Any], name: str) -> list[str]:
    """The members that a tool may take for this name: written in another case, or with a path in them."""
    folded = fold_names(f"$.{name}")[:1]
    return [
        member for member in members if member == name or (folded and fold_names(f"$.{member}")[:1] == folded)
    ]


def _is_absent(parameters: Mapping[str, Any], path: str) -> bool:
    """Whether nothing in the parameters is on the way to the last place of a JSON path."""
    values: list[Any] = [parameters]
    for name in split_path(path):
        if name == "*":
            if not all(isinstance(value, list) for value in values):
                return False
            values = [below for value in values for below in value]
        elif not all(isinstance(value, dict) for value in values):
            return False
        elif values and not any(_list_alike(value, name) for value in values):
            return True
        else:
            values = [value[name] for value in values if name in value]
    return False


def read_distinct(
    path: str, plan: ActionPlan, action: ProposedAction, named: NamedValues | None = None
) -> list[Value] | None:
    """The values in their normal form that a limit of distinct values counts; None: they are not known.
    `named`: what the action names, where it was read already."""
    if path in ("destination", "object"):
        if plan.tool is None or plan.tool.roles is None:
            return None
        texts = [
            argument.value for argument in plan.tool.roles.read(action.parameters) if argument.role == path
        ]
        every, whole = named or find_named_values(plan, action)
        values = [named_value.value for named_value in every if named_value.role == path]
        return values if whole and values and _are_clear(texts, values) else None
    at_path, values = find_at(action.parameters, path), []
    if at_path is None:
        return None
    for value in at_path:
        if isinstance(value, bool):
            values.append(Value("name", str(value)))
        elif read_json_value(value) is None:
            return None
        else:
            listed = read_argument(Argument("destination", path, value), "destination")
            values += [each.value for each in listed]
    return values if len(values) <= MOST_ARGUMENTS and _are_clear(at_path, values) else None


def _are_clear(texts: list[Any], values: list[Value]) -> bool:
    """Whether it is known how many values these texts name: each was short enough to be split, and no value
    is one that readers take for different ones, or holds two addresses or accounts."""
    short = all(not isinstance(text, str) or len(text) <= LONGEST_LIST for text in texts)
    return short and not any(_may_be_several(value) for value in values)


def _may_be_several(value: Value) -> bool:
    if value.kind == "unclear" or value.text.count("@") > 1:
        return True
    return (
        value.kind == "path"
        and sum(value_found.kind == "iban" for value_found in set(find_values(value.text))) > 1
    )


def fingerprint_counted(
    parts: PointParts, plan: ActionPlan, action: ProposedAction, observed: ValuesSeen | None
) -> dict[str, tuple[str, ...]]:
    """By the ids of the limits that count distinct values: the fingerprints of the action's, each once.
    `observed`: what the session has seen of them. Where the installation has no key of values, people who may
    read the state can try out what a value is."""
    limits, master = [own for own in plan.limits if own.spec.distinct is not None], parts.values_key
    if not limits:
        return {}
    key = NO_KEY + plan.tenant.encode() if master is None else find_tenant_key(master, plan.tenant)
    counted = {}
    for limit in limits:
        values = read_distinct(limit.spec.distinct or "", plan, action, get_named_values(observed)) or []
        prints = (fingerprint(key, value)[:FINGERPRINT_BYTES].hex() for value in values)
        counted[limit.id] = tuple(dict.fromkeys(prints))
    return counted


def must_judge_again(context: ActionContext, now: Mapping[str, LimitSeen], *, asked: bool) -> bool:
    """Whether an action must be judged anew, because others have used the limits since. `asked`: models have
    answered for it; then only where it makes a difference, or a condition of the bundle may read it."""
    before = context.observed.limits or {}
    if before == now:
        return False
    if not asked or _may_read_limits(context.plan.bundle):
        return True
    return any(
        use.is_over(now[use.limit.id]) and not use.is_over(before[use.limit.id]) for use in list_uses(context)
    )


@lru_cache(maxsize=KNOWN_BUNDLES)
def _may_read_limits(bundle: Bundle) -> bool:
    """Whether a condition of the bundle may read what limits say: the word stands somewhere in its parts."""
    return any(LIMITS in repr(written) for written in bundle.written.values())


def is_spent(context: ActionContext) -> bool:
    """Whether a limit speaks against an action: then no standing grant replaces the person."""
    observed = context.observed.limits or {}
    return any(use.is_over(observed[use.limit.id]) for use in list_uses(context))


def make_charge(
    context: ActionContext, offset: int, until_ms: int, *, carried: bool, waits: bool
) -> LimitsCharged | None:
    """What an action counts from here on: all of it where it is carried out, and where it waits for a person
    as much as fits. None: no limit is about it."""
    uses, observed = list_uses(context), context.observed.limits or {}
    if not uses:
        return None
    charges = []
    for use in uses:
        limit, full = use.limit, use.adds or 0
        values = observed[limit.id].values if limit.spec.distinct is not None else ()
        counts = carried or (waits and not use.is_over(observed[limit.id]))
        meter = _make_meter(limit, context.plan)
        charges.append(Charge(meter, full, full, values) if counts else Charge(meter, 0, full, (), values))
    return LimitsCharged(offset, context.now_ms, until_ms, carried, tuple(charges))


def list_corrections(view: SessionView, book: Book, *, charged: bool = False) -> tuple[LimitsCorrected, ...]:
    """What the outcomes that an input settled change of what its actions count. `charged`: one of them is
    counted by this input."""
    return tuple(view.settled) if charged or len(book.limits) else ()


def _describe_finding(use: LimitUse, observed: LimitSeen | None) -> dict[str, Any]:
    limit = use.limit
    return {
        "limit": limit.id,
        "used": None if observed is None or observed.used is None else limit.show(observed.used),
        "share": 0 if observed is None else limit.show(observed.share),
        "adds": None if use.adds is None else limit.show(min(use.adds, MAX_SAFE_INTEGER)),
    }


def _describe_reason(use: LimitUse, observed: LimitSeen | None, context: ActionContext) -> str:
    """One sentence for the person who is asked."""
    limit, spec = use.limit, use.limit.spec
    if use.adds is None:
        return f"{UNKNOWN}: {limit.id}: what the action adds ({limit.measure}) is not known"
    if observed is None or observed.used is None:
        return f"{UNKNOWN}: {limit.id}: there is no room to count for {context.plan.agent_id}"
    whose = f"agent {context.plan.agent_id}" if spec.per == "agent" else f"tenant {limit.tenant}"
    used, share, adds = (
        limit.show(min(number, MAX_SAFE_INTEGER)) for number in (observed.used, observed.share, use.adds)
    )
    return (
        f"{SPENT}: {limit.id}: {whose} has used {used} of the {share} that this partition may allow of "
        f"{spec.most} within {span(spec.window_ms)}, and this adds {adds}"
    )
