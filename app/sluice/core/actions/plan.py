"""What bundle, registry, agent, tool and the caller's claims settle of an action before its session is read.

The registry takes precedence over the bundle. The caller's claims only make the result stricter: they are
judged in addition to the known facts, and the stricter tier, risk, reversibility and rows count.

A plan never changes under one policy, so it is made once for all actions of its key, with all that follows
from the key alone: the gates in their order, what a gate comes to that looks at nothing else, and the members
of the verdict that are the same for all of them. (OPA does this as partial evaluation.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from sluice.core.actions.destinations import judges_destinations
from sluice.core.actions.effect_tier import find_effect_tier
from sluice.core.actions.limits import find_limits
from sluice.core.actions.stage import ActionPlan, Gate, Mode, PlannedGate, RememberingGate
from sluice.core.foundation.errors import UnknownStageError
from sluice.core.registry.registry_entries import (
    NO_WORKSPACE,
    collect_hashes,
    find_returns,
    find_untrusted_source,
)
from sluice.core.state.seen_values import find_tenant_key
from sluice.detection.call_inspection import read_effects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.core.actions.stage import ActionContext, Decided, Stage
    from sluice.core.policy.bundles import Bundle
    from sluice.core.policy.policy import Policy
    from sluice.core.registry.registry_entries import Tool
    from sluice.core.state.remembered import GateMemory
    from sluice_topics.records import ProposedAction

CACHED = 8192
"""How many plans are cached; the number is bounded because tool names come from outside."""
_DOUBT = {True: 0, None: 1, False: 2}
"""The order from reversible to irreversible."""


class _Key(NamedTuple):
    """What a plan follows from, under one policy; of the caller's claims None is for one not made."""

    agent_id: str
    tool_name: str
    claimed_type: str | None
    claimed: bool | None
    bundle_id: str | None
    mode: Mode


def sort_stages(names: Iterable[str], stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """The stages of these names, in the names' order. Raises UnknownStageError."""
    registered = {stage.name: stage for stage in stages}
    for name in names:
        if name not in registered:
            raise UnknownStageError(
                f"$.stages: no stage is called {name!r}; there are {', '.join(registered)}"
            )
    return tuple(registered[name] for name in names)


def plans(
    policy: Policy, ordered: Mapping[str, tuple[Stage, ...]], *, master: bytes | None = None
) -> Callable[[ProposedAction], ActionPlan]:
    """The plans under one policy. `ordered`: by a bundle's hash its stages in their order; `master`:
    the key of values, None: sessions keep none. Pure, so what it returns may cache."""
    made = lru_cache(maxsize=CACHED)(partial(_plan, policy, ordered, master=master))

    def plan(action: ProposedAction) -> ActionPlan:
        of_claims = made(
            _Key(
                action.agent_id,
                action.tool_name,
                action.action_type,
                action.reversible,
                action.policy_bundle_id,
                action.mode or "high_stakes",
            )
        )
        return _choose_by_effect(of_claims, action) if of_claims.by_tier else of_claims

    return plan


def _choose_by_effect(plan: ActionPlan, action: ProposedAction) -> ActionPlan:
    """The plan of the tier that follows from what the call does (effect_tier.py)."""
    bundle, workspace = plan.bundle, NO_WORKSPACE if plan.agent is None else plan.agent.workspace
    effects = read_effects(bundle.library, action.tool_name, plan.types, action.parameters)
    tier = find_effect_tier(bundle.file.effect_tiers, workspace, effects)
    return plan if tier is None else plan.by_tier.get(tier, plan)


def _plan(
    policy: Policy, ordered: Mapping[str, tuple[Stage, ...]], key: _Key, *, master: bytes | None
) -> ActionPlan:
    plan = _settle_facts(policy, key)
    stages = ordered.get(plan.bundle.hash, ())
    plan = _add_session(plan, stages, master)
    lower = [
        replace(
            plan, tier=lowered, type_tier=plan.tier, verdict_fields={**plan.verdict_fields, "tier": lowered}
        )
        for lowered in _find_lower_tiers(plan)
    ]
    by_tier = {action_plan.tier: _add_gates(action_plan, stages) for action_plan in lower}
    return replace(_add_gates(plan, stages), by_tier=by_tier)


def _settle_facts(policy: Policy, key: _Key) -> ActionPlan:
    """Who acts, on what, and what each reading of the action makes of it: the strictest counts."""
    principal, tool = policy.find_principal(key.agent_id), policy.registry.tools.get(key.tool_name)
    bundle, own, org = principal.bundle, principal.bundle_asked_for, principal.org
    asked_for, granted = key.bundle_id or own, key.bundle_id in (None, own)
    action_type = (tool and tool.action_type) or bundle.classified(key.tool_name)
    readings = _readings(bundle, tool, action_type, key.claimed_type, key.claimed)
    types = tuple(dict.fromkeys(name for name, _ in readings))
    policies = [bundle.action_types[name] for name in types]
    undone = [reversible for _, reversible in readings]
    tier = _tier(bundle, tool, readings)
    return ActionPlan(
        agent_id=key.agent_id,
        tool_name=key.tool_name,
        agent=principal.agent,
        tenant=principal.tenant,
        org=org,
        bundle=bundle,
        owner=principal.owner,
        mode=key.mode,
        bundle_asked_for=asked_for,
        granted=granted,
        accepted=granted and principal.agent is not None and asked_for == bundle.id,
        tool=tool,
        action_type=action_type,
        types=types,
        reversible=max(undone, key=_DOUBT.__getitem__),
        tier=tier,
        risk=max(type_policy.risk for type_policy in policies),
        reversibilities=tuple(dict.fromkeys(undone)),
        rows_upper_bound=max(type_policy.rows_upper_bound for type_policy in policies),
        tightened=len(readings) > 1,
        entries=collect_hashes(principal.agent, tool, org),
        registry=policy.registry,
        reads=find_untrusted_source(tool),
        returns=None,
        verdict_fields={
            "tenant_id": principal.tenant_id,
            "mode": key.mode,
            "enforcement": org.enforcement,
            "tier": tier,
            "policy_bundle_id": asked_for,
            "bundle_hash": bundle.hash,
            "stages": bundle.stages,
        },
    )


def _add_session(plan: ActionPlan, stages: Sequence[Stage], master: bytes | None) -> ActionPlan:
    """What the session keeps of the plan's actions, and the limits above the session."""
    remembering = tuple(
        (stage, stage.may_remember(plan.bundle)) for stage in stages if isinstance(stage, RememberingGate)
    )
    plan = replace(plan, remembering=remembering, remembers=any(may for _, may in remembering))
    if master is not None:
        returns = find_returns(plan.tool, plan.tool_name, plan.types)
        plan = replace(plan, returns=returns, values_key=find_tenant_key(master, plan.tenant))
    limits = find_limits(plan)
    return replace(plan, limits=limits, entries=plan.entries | collect_hashes(*limits)) if limits else plan


def _add_gates(plan: ActionPlan, stages: Sequence[Stage]) -> ActionPlan:
    judges = judges_destinations(plan)
    plan = replace(plan, looks_up_values=judges is not None, judges_destinations=judges or False)
    return replace(plan, gates=tuple(_plan_gate(stage, plan) for stage in stages))


def _find_lower_tiers(plan: ActionPlan) -> set[str]:
    """The tiers below the plan's that may follow from what a call does: where the bundle says so for its
    type, no entry gives the tool a tier, and no claim of the caller makes the action stricter."""
    tiers, tool = plan.bundle.file.effect_tiers, plan.tool
    named = set(plan.types) <= set(tiers.action_types)
    if tool is None or tool.tier is not None or plan.agent is None or plan.tightened or not named:
        return set()
    return {tier for tier in (tiers.reads, max(tiers.reads, tiers.own)) if tier < plan.tier}


def _plan_gate(stage: Stage, plan: ActionPlan) -> PlannedGate:
    mode = plan.bundle.modes.get(stage.name, "enforce")
    if not isinstance(stage, Gate):
        pauses = getattr(stage, "pauses", False)
        return PlannedGate(stage.name, stage.evaluate, stage, mode, None, leaves_denials=False, pauses=pauses)
    return PlannedGate(
        stage.name,
        stage.prepare(plan),
        stage,
        mode,
        stage.settle(plan),
        stage.leaves_denials,
        stage.pauses,
    )


def _readings(
    bundle: Bundle, tool: Tool | None, known_type: str, claimed_type: str | None, claimed: bool | None
) -> list[tuple[str, bool | None]]:
    """The readings of the action as type and reversibility: first as known, then as the caller claims. A
    claim that the action can be undone does not count."""
    readings: dict[tuple[str, bool | None], None] = {}
    for name in (known_type, claimed_type or known_type):
        registered = None if tool is None else tool.reversible
        readings[(name, bundle.action_types[name].reversible if registered is None else registered)] = None
        if claimed is False:
            readings[(name, False)] = None
    return list(readings)


def _tier(bundle: Bundle, tool: Tool | None, readings: list[tuple[str, bool | None]]) -> str:
    if tool is not None and tool.tier is not None:
        return tool.tier
    return max(bundle.action_types[name].tier.of(reversible) for name, reversible in readings)


def collect_gate_memories(
    context: ActionContext, decided: Decided, *, has_capacity: bool
) -> dict[str, GateMemory | None]:
    """By their names what the plan's gates remember of the agent after an action. `has_capacity`: its session
    can remember it."""
    remembered = context.observed.remembered
    return {
        gate.name: gate.keep(context, decided)
        for gate, may_remember in context.plan.remembering
        if (has_capacity or gate.counts_without_room) and (may_remember or gate.name in remembered)
    }
