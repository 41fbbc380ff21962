"""Standing grants: an approver signs once what an agent may then do several times without asking again.

A grant is for one agent, one tool, one session or all, a number of uses, a time, and if it has one, a
condition on the action. It counts only while the approver who signed it is in force for the tenant and the
tool, and never for the highest tier. It replaces an approval, not a gate: what a gate blocks is denied. Each
use is a record of the ledger, and any approver in force may revoke the grant.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sluice.core.actions.authority import OBLIGATIONS
from sluice.core.actions.delegation import run_proven
from sluice.core.actions.rules import evaluate_by_type
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.input_record import verdict_id
from sluice.core.rules.rule import Rule
from sluice.core.rules.rule_set import RuleSet
from sluice.core.state.grant import StandingGrant
from sluice_topics.catalog import ESCALATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from sluice.core.actions.pipeline import Evaluation
    from sluice.core.actions.stage import ActionContext, ActionPlan
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.policy import PointParts
    from sluice.core.registry.agent_grants import AgentGrant
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.registry import Registry
    from sluice.core.state.book import Book
    from sluice.core.state.escalation import Escalation, Route
    from sluice_topics.records import ProposedAction, ReviewDecision

HIGHEST_TIER = "T4"
ROLES = frozenset({"approver", "vp"})
GRANT_PREFIX = "grant:"
OF_REGISTRY = "grant:agent_grant/"
REMEMBERED_CONDITIONS = 256
_GIVEN, _USED, _REVOKED = (f"sluice/grant_{word}/v1" for word in ("given", "used", "revoked"))


@lru_cache(maxsize=REMEMBERED_CONDITIONS)
def condition_of(when: str) -> RuleSet:
    """A grant's condition, compiled. Raises BundleError."""
    return RuleSet([Rule(id="grant", type="invariant", reason="a standing grant", condition=when)])


def object_to_lasting_answer(tier: str, quorum: int) -> str | None:
    """Why an answer to an action of this tier and quorum may not count for later actions; None: it may."""
    if tier == HIGHEST_TIER:
        return f"an action of tier {HIGHEST_TIER} is approved one by one"
    if quorum > 1:
        return "an action that needs several approvals is approved one by one"
    return None


def object_to_grant(input_record: InputRecord, review: ReviewDecision, escalation: Escalation) -> str | None:
    """Why the grant in an approval is refused; None if it is not, or if the approval has none."""
    grant = review.grant
    if grant is None:
        return None
    one_by_one = object_to_lasting_answer(escalation.tier, escalation.quorum)
    if one_by_one is not None:
        return one_by_one
    if read_milliseconds(grant.until) <= input_record.timestamp_ms:
        return "the grant would be over before it begins"
    try:
        condition_of(grant.when or "true")
    except BundleError as error:
        return f"when: {error}"
    return None


def grant_of(
    input_record: InputRecord, review: ReviewDecision, escalation: Escalation, approver: Approver
) -> StandingGrant | None:
    """The grant that an approval gives; None if it gives none."""
    asked = review.grant
    if asked is None:
        return None
    scope = (escalation.tenant, escalation.agent_id, escalation.session_id, escalation.tool)
    bounds = (asked.when, asked.uses, read_milliseconds(asked.until))
    name = GRANT_PREFIX + input_record.decision_id
    signer = (approver.id, approver.key, approver.hash)
    return StandingGrant(name, *scope, *bounds, *signer, digest([name, *scope, *bounds]))


def find_grant(
    parts: PointParts, book: Book, plan: ActionPlan, action: ProposedAction, input_record: InputRecord
) -> StandingGrant | None:
    """The standing grant of an action's agent, tool and session; else the first of its agent and tool in all
    sessions of which the partition has uses left."""
    tenant, registry = plan.tenant, plan.registry
    own = book.grants.get((tenant, action.agent_id, action.session_id, action.tool_name))
    if own is not None:
        return own
    for entry in registry.agent_grants.get((tenant, action.agent_id, action.tool_name), ()):
        grant = _split_grant(entry, registry, action, input_record.partition, parts.limits.partitions)
        grant = grant and book.grants.get(grant.scope, grant)._replace(session_id=action.session_id)
        if grant is not None and grant.uses > 0 and input_record.timestamp_ms < grant.until_ms:
            return grant
    return None


def _split_grant(
    entry: AgentGrant, registry: Registry, action: ProposedAction, partition: int, partitions: int
) -> StandingGrant | None:
    """A grant for all sessions as a partition has it before its first use; None without its approver."""
    approver = registry.approvers.get(entry.approver_id)
    if approver is None:
        return None
    scope = (entry.tenant, entry.agent_id, action.session_id, entry.tool)
    bounds = (entry.when, entry.share(partition, partitions), entry.until_ms)
    signer = (approver.id, approver.key, approver.hash)
    return StandingGrant(GRANT_PREFIX + entry.key, *scope, *bounds, *signer, entry.hash, of_agent=True)


def entries_of(grant: StandingGrant) -> dict[str, str]:
    """ "kind/id@revision" to hash of the registry entries on which a grant rests."""
    entries = {grant.entry: grant.entry_hash}
    if grant.of_agent:
        entries[grant.grant_id.removeprefix(GRANT_PREFIX)] = grant.digest
    return entries


def run_granted(
    grant: StandingGrant,
    context: ActionContext,
    evaluation: Evaluation,
    stopwatch: Callable[[], int],
) -> Generator[Request, Answer, tuple[Evaluation, StandingGrant | None]]:
    """Judge an escalated action again if the grant covers it: the new evaluation and the grant.

    Otherwise the evaluation as it was, and None.
    """
    if evaluation.outcome != "ESCALATE" or not covers(grant, context):
        return evaluation, None
    context.approved, context.escalated = True, None
    again = yield from run_proven(context, stopwatch)
    uncovered = {gate.name for gate in context.plan.gates if not getattr(gate.stage, "grants_cover", True)}
    if any(gate["gate"] in uncovered and _objects(gate, context) for gate in again.gates):
        context.approved = False
        return evaluation, None
    again.model_outputs[:0] = evaluation.model_outputs
    if again.outcome == "ALLOW":
        again.obligations += OBLIGATIONS[context.plan.tier]
    return again, grant


def _objects(gate: Mapping[str, Any], context: ActionContext) -> bool:
    """Whether a gate did not pass, or advises in force: a grant covers only what it says nothing of."""
    advises = context.plan.judges_destinations and (gate.get("detail") or {}).get("advice")
    return not gate["passed"] or bool(advises)


def covers(grant: StandingGrant, context: ActionContext) -> bool:
    """Whether a grant with the action's scope replaces an approval of this action."""
    waits = context.plan.mode == "high_stakes" and context.plan.org.enforcement == "enforce"
    if not waits or context.plan.tier == HIGHEST_TIER or grant.uses < 1 or grant.until_ms <= context.now_ms:
        return False
    route = context.plan.bundle.approvals.find_route(context.plan.tier, grant.tool, context.plan.tenant)
    if not _is_in_force(context.plan.registry, grant, context.now_ms, route):
        return False
    if context.plan.bundle.approvals.count_needed(context.plan.tier) > 1:
        return False
    if grant.when is None:
        return True
    try:
        condition = condition_of(grant.when)
    except BundleError:
        return False
    by_type = evaluate_by_type(context, condition)
    return all(result.passed is True for same in by_type for result in same)


def _is_in_force(registry: Registry, grant: StandingGrant, at_ms: int, route: Route | None) -> bool:
    approver = registry.approvers.get(grant.approver_id)
    agent = registry.agents.get(grant.agent_id)
    if approver is None or approver.id == grant.agent_id:
        return False
    if agent is not None and agent.owner == approver.id:
        return False
    if route is not None and approver.groups.isdisjoint(route.groups):
        return False
    with_tool = approver.tools is None or grant.tool in approver.tools
    return with_tool and approver.acts_for(grant.tenant, at_ms) and bool(approver.roles & ROLES)


def describe_in_verdict(grant: StandingGrant) -> dict[str, Any]:
    """A verdict's `grant`: the grant that allowed the action, as it was before this use."""
    return {
        "grant_id": grant.grant_id,
        "when": grant.when,
        "uses_left": grant.uses,
        "until": rfc3339(grant.until_ms),
        "approver_id": grant.approver_id,
        "entry": grant.entry,
        "entry_hash": grant.entry_hash,
        "grant_digest": grant.digest,
    }


def read_recorded_grant(verdict: Mapping[str, Any], tool: str) -> StandingGrant | None:
    """Read the grant back from a verdict, None if it has none; `tool` is that of the action."""
    recorded = verdict.get("grant")
    if recorded is None:
        return None
    scope = (verdict["tenant_id"], verdict["agent_id"], verdict["session_id"], tool)
    bounds = (recorded["when"], recorded["uses_left"], read_milliseconds(recorded["until"]))
    signer = (recorded["approver_id"], recorded["entry"], recorded["entry_hash"])
    of_agent = recorded["grant_id"].startswith(OF_REGISTRY)
    return StandingGrant(recorded["grant_id"], *scope, *bounds, *signer, recorded["grant_digest"], of_agent)


def make_given_record(
    grant: StandingGrant, input_record: InputRecord, escalation_id: str, justification: str
) -> OutRecord:
    """GrantGiven; it is written together with the approval that gives the grant."""
    more = {"escalation_id": escalation_id, "justification": justification}
    bounds = {"when": grant.when, "uses": grant.uses, "until": rfc3339(grant.until_ms)}
    fields = {"schema": _GIVEN, **_fields(grant), **bounds, **_signer(grant), **more}
    return _event("GrantGiven", fields, grant, input_record)


def make_used_record(grant: StandingGrant, input_record: InputRecord, action_id: str) -> OutRecord:
    """GrantUsed; `grant` is as it is after this use."""
    fields = {
        "schema": _USED,
        **_fields(grant),
        "use_id": f"use:{input_record.decision_id}",
        "verdict_id": verdict_id(input_record.decision_id),
        "action_id": action_id,
        "uses_left": grant.uses,
    }
    return _event("GrantUsed", fields, grant, input_record)


def make_revoked_record(grant: StandingGrant, input_record: InputRecord, signed: dict[str, Any]) -> OutRecord:
    """GrantRevoked; `signed` are the fields about the approver who revoked it."""
    fields = {"schema": _REVOKED, **_fields(grant), "uses_left": grant.uses, **signed}
    return _event("GrantRevoked", fields, grant, input_record)


def _fields(grant: StandingGrant) -> dict[str, Any]:
    return {
        "grant_id": grant.grant_id,
        "agent_id": grant.agent_id,
        "session_id": grant.session_id,
        "tenant_id": grant.tenant,
        "tool": grant.tool,
        "grant_digest": grant.digest,
    }


def _signer(grant: StandingGrant) -> dict[str, Any]:
    return {
        "approver_id": grant.approver_id,
        "approver_entry": grant.entry,
        "approver_hash": grant.entry_hash,
    }


def _event(kind: str, fields: dict[str, Any], grant: StandingGrant, input_record: InputRecord) -> OutRecord:
    fields |= {"decided_at": rfc3339(input_record.timestamp_ms), "input": input_record.coordinates()}
    return OutRecord(ESCALATIONS, kind, fields, grant.session_id)
