"""Checking what a signing agent says about its chain of delegations against its parents' signed grants.

An action names the grants from the root's to the one for its own agent; `chainDepth`, `rootAgentId` and
`parentAgentId` must be what follows from them. The agent that delegates signs a grant for one agent, one
session, a time, a number of further delegations and, if it lists them, some tools. Without grants an action
must not state a chain; only an agent that no other may call may state that it is a root. The check is made
only where the action's agent signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.actions.pipeline import Evaluation, run
from sluice.core.actions.stage import StageResult
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.registry.agent_keys import find_key
from sluice.core.registry.keys import is_granted_by
from sluice.core.registry.registry import list_link_violations
from sluice.core.registry.registry_entries import collect_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from sluice.core.actions.stage import ActionContext
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.registry.registry_entries import Agent
    from sluice_topics.records.inputs import DelegationGrant, GovernanceContext

GATE = "delegation"
UNPROVEN = "delegation_unproven"


def run_proven(
    context: ActionContext, stopwatch: Callable[[], int]
) -> Generator[Request, Answer, Evaluation]:
    """Evaluate the gates, or block without it if the chain that a signing agent states is not proven.

    The check is listed before the gates.
    """
    proof = prove(context)
    if proof is None:
        return (yield from run(context, stopwatch))
    if proof.outcome == "block":
        evaluation = Evaluation("BLOCK", proof.reason)
    else:
        evaluation = yield from run(context, stopwatch)
    evaluation.list_gate(GATE, proof, 0)
    evaluation.gates.insert(0, evaluation.gates.pop())
    evaluation.durations_ns.insert(0, evaluation.durations_ns.pop())
    return evaluation


def prove(context: ActionContext) -> StageResult | None:
    """Whether the grants prove the chain; None if there is no chain to prove."""
    agent, governance = context.plan.agent, context.action.governance_context
    if agent is None or agent.keys is None or governance is None:
        return None
    grants: Sequence[DelegationGrant] = governance.grants or ()
    wrong = next(_wrong(context, governance, grants), None) if grants else _wrong_root(agent, governance)
    if wrong is None and not grants:
        return None
    names = {name for grant in grants for name in (grant.parent_agent_id, grant.agent_id)}
    entries = collect_hashes(*(context.plan.registry.agents.get(name) for name in sorted(names)))
    if wrong is not None:
        return StageResult("block", f"{UNPROVEN}: {wrong}", {}, entries=entries)
    proven = {"root_agent_id": grants[0].parent_agent_id, "chain_depth": len(grants)}
    return StageResult(
        "pass", None, {**proven, "key_ids": [grant.key_id for grant in grants]}, entries=entries
    )


def _wrong_root(agent: Agent, governance: GovernanceContext) -> str | None:
    """What is wrong with a chain without grants."""
    claimed = (governance.chain_depth, governance.root_agent_id, governance.parent_agent_id)
    is_root = governance.chain_depth in (None, 0) and governance.root_agent_id in (None, agent.id)
    if claimed == (None, None, None) or (
        is_root and governance.parent_agent_id is None and not agent.callers
    ):
        return None
    return "the context tells a chain and names no grants"


def _wrong(
    context: ActionContext, governance: GovernanceContext, grants: Sequence[DelegationGrant]
) -> Iterator[str]:
    depth, root, last = len(grants), grants[0].parent_agent_id, grants[-1]
    if last.agent_id != context.action.agent_id:
        yield f"the last grant is for {last.agent_id}"
    if governance.chain_depth not in (None, depth):
        yield f"chainDepth is {depth} by the grants, not {governance.chain_depth}"
    if governance.root_agent_id not in (None, root):
        yield f"rootAgentId is {root} by the grants, not {governance.root_agent_id}"
    if governance.parent_agent_id not in (None, last.parent_agent_id):
        yield f"parentAgentId is {last.parent_agent_id} by the grants, not {governance.parent_agent_id}"
    if len({root, *(delegation_grant.agent_id for delegation_grant in grants)}) <= depth:
        yield "an agent stands in the chain twice"
    for index, grant in enumerate(grants):
        if index and grant.parent_agent_id != grants[index - 1].agent_id:
            yield f"grant {index + 1} is by {grant.parent_agent_id}, to whom nothing was granted"
        yield from _unfit(context, grant, depth - 1 - index)


def _unfit(context: ActionContext, grant: DelegationGrant, further: int) -> Iterator[str]:
    """What is wrong with one grant; `further` counts the grants after it."""
    action, what = context.action, f"the grant of {grant.parent_agent_id}"
    if grant.session_id != action.session_id:
        yield f"{what} is for session {grant.session_id}"
    if _is_over(grant.until, context.now_ms):
        yield f"{what} counted until {grant.until}"
    if further > grant.max_depth:
        yield f"{what} allows {grant.max_depth} further delegations, not {further}"
    if grant.tools is not None and action.tool_name not in grant.tools:
        yield f"{what} does not name the tool {action.tool_name}"
    yield from list_link_violations(context.plan.registry, grant.parent_agent_id, grant.agent_id)
    parent = context.plan.registry.agents.get(grant.parent_agent_id)
    if parent is None or parent.keys is None:
        yield f"{grant.parent_agent_id} does not sign"
        return
    key = find_key(parent.keys, grant.key_id, context.now_ms)
    if isinstance(key, str):
        yield f"{what}: {key}"
    elif not is_granted_by(key.public_key, grant, context.plan.registry.audience):
        yield f"{what}: bad_signature"


def _is_over(until: str, now_ms: int) -> bool:
    """A time that the calendar does not have counts as over."""
    try:
        return now_ms >= read_milliseconds(until)
    except ValueError:
        return True
