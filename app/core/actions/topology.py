"""Gate 2B, "topology": whether this agent may hand this work to that one (seed 001, Gate 2B).

The action's `governanceContext` tells the chain in which the acting agent itself works: its root, its own
parent, and `chainDepth`, the delegations that led to it (0: it is the root). It is the caller's word: a named
parent must be a link that both lists allow, ancestors that are named count even where `chainDepth` says less,
and what it leaves open escalates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field

from app.core.actions.pipeline import INCONCLUSIVE
from app.core.actions.stage import PASSED, Detail, Gate, StageResult
from app.core.foundation.canonical import wire_int
from app.core.foundation.strict import StrictModel
from app.core.policy.bundle_parts import BundlePart
from app.core.quality_bundle.loosenings import Loosening
from app.core.registry.topology import link_violations
from topics.records.base import LedgerCount  # noqa: TC001 - pydantic reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.actions.stage import ActionContext
    from topics.records import ProposedAction

DELEGATION = "DELEGATION"


LONGEST_CHAIN = 64
"""What a bundle may allow at most; the depth of a chain that nobody follows any more."""


class Topology(StrictModel):
    """`max_chain_depth`: delegations that a chain may hold from its root agent on, counting the new one.

    0 forbids delegation altogether.
    """

    max_chain_depth: Annotated[int, Field(ge=0, le=LONGEST_CHAIN)] = 3


def find_loosenings(before: Topology, after: Topology) -> Iterator[Loosening]:
    """A longer chain."""
    old, new = before.max_chain_depth, after.max_chain_depth
    if new > old:
        yield Loosening(f"a chain may hold {new} delegations, not {old}", ("max_chain_depth",))


class TopologyDetail(Detail):
    """Of a delegation; nothing where the action is none. `delegations` from the root on, this one counted;
    null: unknown."""

    delegate_to: Annotated[str | None, Field(title="delegated to")] = None
    delegations: LedgerCount | None = None
    max_chain_depth: Annotated[int | None, Field(title="delegations at most")] = None
    violations: Annotated[list[str] | None, Field(title="violation")] = None


class TopologyCheck(Gate):
    """Blocks a delegation that a list, an authority or the chain forbids; escalates one it cannot judge."""

    name = "topology"
    detail = TopologyDetail
    judges_content = False
    part = BundlePart(name, Topology, find_loosenings, Topology())

    def evaluate(self, context: ActionContext) -> StageResult:
        """A delegation is an action of type DELEGATION, also if only claimed, or one that names
        `delegate_to`; others pass.

        The first violation is the reason; all are in the detail, beside the number of delegations from the
        root on, this one counted (null: unknown). `entries` are the delegate's and the named parent's.
        """
        action = context.action
        if action.delegate_to is None and DELEGATION not in context.types:
            return PASSED
        policy: Topology = context.bundle.parts[self.name]
        chain, bound = _chain(context), policy.max_chain_depth
        violations = _violations(context, chain, bound)
        detail = {
            "delegate_to": action.delegate_to,
            "delegations": wire_int(chain.least + 1) if chain.known else None,
            "max_chain_depth": bound,
            "violations": violations,
        }
        entries = _entries(context)
        if violations:
            return StageResult("block", violations[0], detail, entries=entries)
        if action.delegate_to is None or not chain.known:
            missing = "delegate_to" if action.delegate_to is None else "chainDepth"
            reason = f"{INCONCLUSIVE}: {self.name} does not know {missing}"
            return StageResult("escalate", reason, detail, entries=entries)
        return StageResult("pass", None, detail, entries=entries)


class _Chain(NamedTuple):
    """Delegations that led to the acting agent: at least this many, exactly if `known`."""

    least: int
    known: bool


def _chain(context: ActionContext) -> _Chain:
    """Where nothing is told, an agent that nobody may call is a root; another may stand anywhere."""
    ancestors, told = _ancestors(context.action), context.action.governance_context
    if told is not None and told.chain_depth is not None:
        return _Chain(max(told.chain_depth, len(ancestors)), known=True)
    if told is not None and told.root_agent_id == context.action.agent_id:
        return _Chain(len(ancestors), known=not ancestors)
    may_be_called = context.agent is not None and bool(context.agent.callers)
    return _Chain(len(ancestors), known=not ancestors and not may_be_called)


def _ancestors(action: ProposedAction) -> set[str]:
    """The agents other than the acting one that the context names above it."""
    told = action.governance_context
    named = set() if told is None else {told.root_agent_id, told.parent_agent_id}
    return {name for name in named if name not in (None, action.agent_id)}


def _violations(context: ActionContext, chain: _Chain, bound: int) -> list[str]:
    action, registry, found = context.action, context.registry, []
    told = action.governance_context
    if action.delegate_to is not None:
        found += link_violations(registry, action.agent_id, action.delegate_to)
    if told is not None and told.parent_agent_id is not None:
        found += link_violations(registry, told.parent_agent_id, action.agent_id)
    if chain.least + 1 > bound:
        found.append(f"chain_too_deep: {chain.least + 1} delegations, the bundle allows {bound}")
    return found + _cycles(action, chain)


def _cycles(action: ProposedAction, chain: _Chain) -> list[str]:
    told, found = action.governance_context, []
    if action.delegate_to in _ancestors(action):
        found.append(f"cycle: {action.delegate_to} is above {action.agent_id} already")
    if told is not None and told.root_agent_id == action.agent_id and chain.least:
        found.append(f"cycle: {action.agent_id} is the root of its own chain")
    return found


def _entries(context: ActionContext) -> dict[str, str]:
    told = context.action.governance_context
    names = (context.action.delegate_to, None if told is None else told.parent_agent_id)
    agents = [context.registry.agents[name] for name in names if name in context.registry.agents]
    return {agent.key: agent.hash for agent in agents}
