"""A proposed retrieval, from the session's values to a decision: every item judged, then remembered.

Nothing is asked of anybody on this way (seed 004, "Deployment": no network hop on the read path): provenance
is judged on what is recorded of it. The one exception is a model that judges bodies, where the quality bundle
says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.arrival import escalation_id, quality_id
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import milliseconds_of, rfc3339
from sluice.core.quality_bundle.provenance_request import wanted
from sluice.core.registry.agent_keys import UNSIGNED_AGENT
from sluice.core.registry.review_signing import may_still_sign
from sluice.core.retrieval.body_opinions import ask_about
from sluice.core.retrieval.context import ItemApproval, assess, barred
from sluice.core.retrieval.judgement import Judged, judge
from sluice.core.retrieval.quality_record import common_to, decision_record
from sluice.core.retrieval.seen import recorded_seen
from sluice.core.retrieval.served import served, withheld
from sluice.core.state.book import EscalationKept
from sluice.core.state.decision import Decision
from sluice.core.state.escalation import Escalation
from sluice.core.state.escalation_records import open_in
from sluice.core.state.expiry import time_records
from sluice.core.state.nonces import keep_nonce
from sluice.core.state.recent_retrieval import RecentRetrieval, item_mark
from sluice.core.state.session import who
from sluice.core.state.session_view import SessionView
from sluice_topics.catalog import ESCALATIONS, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from sluice.core.foundation.arrival import Arrival
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.policy import PointParts
    from sluice.core.retrieval.context import RetrievalContext
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState
    from sluice_topics.records import ProposedRetrieval


SCHEMA = "sluice/retrieval_escalation_opened/v1"
_OF_ITEMS = escalation_id(RETRIEVALS)
TIER = "high_privilege"
ROLE = "approver"
ACTION_TIER = "T3"
"""As many approvals as an action of this tier needs."""


def escalation_of(arrival: Arrival, context: RetrievalContext, judged: Iterable[Judged]) -> str | None:
    """The id of the escalation that a request opens, None if it opens none.

    Seed 004, "Interaction with HITL": every flag to a person would end in approval fatigue. A person answers
    with an approval or a signed override (registry kind quality_override), and the agent asks again.
    """
    quality, category = context.quality, context.retrieval.tool_category
    if quality is None or context.tier != TIER or (category or "").casefold() not in quality.high_impact:
        return None
    waits = any(one.denied_for_quality for one in judged)
    return escalation_id(arrival.decision_id) if waits else None


def opened(
    arrival: Arrival, context: RetrievalContext, an_id: str, denied: Sequence[dict[str, Any]], ttl_ms: int
) -> OutRecord:
    """RetrievalEscalationOpened; `denied` are the decision records of the items that wait."""
    retrieval, now = context.retrieval, arrival.timestamp_ms
    body = {
        "schema": SCHEMA,
        "escalation_id": an_id,
        "request_id": retrieval.request_id,
        "request_hash": arrival.digest,
        "agent_id": retrieval.agent_id,
        "session_id": retrieval.session_id,
        "tenant_id": context.tenant,
        "tool_category": retrieval.tool_category,
        "items": [withheld(record) for record in denied],
        "reason": denied[0]["reason"],
        "required_role": ROLE,
        "opened_at": rfc3339(now),
        "expires_at": rfc3339(now + ttl_ms),
        "decided_at": rfc3339(now),
        "input": arrival.coordinates(),
    }
    quorum = context.bundle.approvals.needed(ACTION_TIER)
    if quorum > 1:
        body["quorum"] = quorum
    if context.bundle.approvals.demands_own_key(ACTION_TIER):
        body["own_key"] = True
    return OutRecord(ESCALATIONS, "RetrievalEscalationOpened", body, retrieval.session_id)


def evaluate(
    parts: PointParts, arrival: Arrival, retrieval: ProposedRetrieval, state: SessionState, shared: Shared
) -> Decision | Generator[Request, Answer, Decision]:
    """Decide on every item. A request that comes again is judged again: an item may have grown old."""
    view = SessionView(state, parts.limits, arrival.timestamp_ms)
    context = assess(parts, arrival, retrieval, shared.provenance)
    approved = shared.book.approval_of(retrieval.session_id, arrival.digest)
    context = context._replace(approval=_approval(context, approved))
    refusal = _refusal(arrival)
    if refusal is not None:
        denied = [_unsigned(context, place, refusal) for place in range(len(retrieval.items))]
        return Decision((), _records(arrival, context, denied))
    judged, under = _judged(context), _Kept(parts, view, shared)
    if any(one.asks for one in judged):
        return _asking(arrival, context, judged, under)
    return _keep(arrival, context, judged, under)


class _Kept(NamedTuple):
    """Where a decision is kept."""

    parts: PointParts
    view: SessionView
    shared: Shared


def _asking(
    arrival: Arrival, context: RetrievalContext, judged: Sequence[Judged], under: _Kept
) -> Generator[Request, Answer, Decision]:
    yield from ask_about(context, judged)
    return _keep(arrival, context, judged, under)


def _keep(arrival: Arrival, context: RetrievalContext, judged: Sequence[Judged], under: _Kept) -> Decision:
    """The changes of session and partition, and all records. What the partition keeps is looked at again
    after the last answer, since other sessions went on meanwhile."""
    parts, view, shared = under
    approved = shared.book.approval_of(context.retrieval.session_id, arrival.digest)
    records = [*time_records(view), *_records(arrival, context, judged)]
    keep_nonce(view, who(context.tenant, context.retrieval.agent_id), arrival)
    _remember(view, context, judged, arrival.offset)
    changes: tuple[EscalationKept, ...] = ()
    if approved is not None and any(isinstance(one.override, ItemApproval) for one in judged):
        changes = (EscalationKept(approved._replace(outcome="ALLOW")),)
    if escalation_of(arrival, context, judged) is not None:
        waits = _waiting(arrival, context)
        evicted, opening = open_in(shared.book, waits, parts.limits.max_escalations)
        records += evicted
        changes += opening
    return Decision(view.changes(), records, changes)


def judge_again(
    parts: PointParts, arrival: Arrival, retrieval: ProposedRetrieval, decision: Mapping[str, Any]
) -> Generator[Request, Answer, OutRecord]:
    """The decision on the one item of which `decision` says where its reference led. Raises IndexError."""
    context = assess(parts, arrival, retrieval, recorded_seen(decision))
    context = context._replace(approval=_recorded_approval(context, decision["override"]))
    place = decision["place"]
    refusal = _refusal(arrival)
    one = judge(context, place, barred(context)) if refusal is None else _unsigned(context, place, refusal)
    yield from ask_about(context, [one])
    escalation = escalation_of(arrival, context, [one])
    return decision_record(common_to(arrival, context), retrieval.items[place], one, place, escalation)


def _waiting(arrival: Arrival, context: RetrievalContext) -> Escalation:
    """The escalation that a request opens, bound to the digest of exactly this request."""
    retrieval, now = context.retrieval, arrival.timestamp_ms
    ttl_ms = 0 if context.quality is None else context.quality.escalation_ttl_ms
    return Escalation(
        escalation_id(arrival.decision_id),
        quality_id(arrival.decision_id, 0),
        retrieval.request_id,
        retrieval.agent_id,
        retrieval.session_id,
        context.tenant,
        retrieval.tool_name or "",
        arrival.digest,
        ACTION_TIER,
        ROLE,
        context.bundle.approvals.needed(ACTION_TIER),
        arrival.topic,
        arrival.partition,
        arrival.offset,
        now,
        now + ttl_ms,
        own_key=context.bundle.approvals.demands_own_key(ACTION_TIER),
    )


def _approval(context: RetrievalContext, approved: Escalation | None) -> ItemApproval | None:
    """The approval of an earlier request of the same bytes, as long as it, its last approver and the delegate
    that signed it are in force."""
    if approved is None or context.now_ms >= approved.usable_until_ms:
        return None
    within = context.tenant, ROLE
    if not may_still_sign(context.registry, approved.votes[-1].delegate, within, context.now_ms):
        return None
    name, until = approved.votes[-1].approver_id, approved.usable_until_ms
    return _in_force(context, approved.escalation_id, name, until, approved.justification)


def _recorded_approval(context: RetrievalContext, override: Mapping[str, Any] | None) -> ItemApproval | None:
    """What a record says of the approval that let its item through; None: none did."""
    if override is None or not override["override_id"].startswith(_OF_ITEMS):
        return None
    until = milliseconds_of(override["expires_at"])
    return _in_force(
        context, override["override_id"], override["approver_id"], until, override["justification"]
    )


def _in_force(
    context: RetrievalContext, an_id: str, name: str, until_ms: int, justification: str
) -> ItemApproval | None:
    approver = context.registry.approvers.get(name)
    if approver is None or not approver.acts_for(context.tenant, context.now_ms):
        return None
    return ItemApproval(an_id, approver.key, approver.hash, name, until_ms, justification)


def _refusal(arrival: Arrival) -> str | None:
    """Why the request does not count as its agent's; a repeat of it is no answer a second time."""
    return None if arrival.signature is None else arrival.signature.unanswered()


def _unsigned(context: RetrievalContext, place: int, refusal: str) -> Judged:
    """Denied under flag-only and shadow too: the request is not the agent's."""
    judged = Judged(place, context.bodies[place])
    judged.denies("controls", "UNSIGNED_AGENT", f"{UNSIGNED_AGENT}: {refusal}")
    return judged


def _records(arrival: Arrival, context: RetrievalContext, judged: Sequence[Judged]) -> list[OutRecord]:
    """The decision on each item, the escalation that they open, what is served and what is to be resolved."""
    escalation = escalation_of(arrival, context, judged)
    common = common_to(arrival, context)
    decided = [
        decision_record(common, item, one, place, escalation)
        for place, (item, one) in enumerate(zip(context.retrieval.items, judged, strict=True))
    ]
    bodies = [record.body for record in decided]
    if escalation is not None:
        decided.append(_escalated(arrival, context, escalation, bodies))
    decided.append(served(arrival, context, list(zip(bodies, judged, strict=True))))
    return decided + _wanted(context, judged)


def _judged(context: RetrievalContext) -> list[Judged]:
    stopped = barred(context)
    return [judge(context, place, stopped) for place in range(len(context.retrieval.items))]


def _escalated(
    arrival: Arrival, context: RetrievalContext, escalation: str, bodies: Sequence[dict[str, Any]]
) -> OutRecord:
    denied = [body for body in bodies if body["escalation_id"] is not None]
    ttl_ms = 0 if context.quality is None else context.quality.escalation_ttl_ms
    return opened(arrival, context, escalation, denied, ttl_ms)


def _wanted(context: RetrievalContext, judged: Sequence[Judged]) -> list[OutRecord]:
    """Each reference once."""
    uris = {
        item.provenance_uri: None
        for item, one in zip(context.retrieval.items, judged, strict=True)
        if one.check is not None and one.check.wanted
    }
    return [wanted(context.tenant, uri, "retrieval", context.now_ms) for uri in uris]


def _remember(view: SessionView, context: RetrievalContext, judged: Sequence[Judged], offset: int) -> None:
    """The session keeps which items were decided on, the flags of those that were let through, and that
    untrusted content was among them."""
    items = context.retrieval.items
    marks = "".join([item_mark(item.item_id) for item in items])
    remembered = RecentRetrieval(context.tier, marks, view.now, offset)
    owner = who(context.tenant, context.retrieval.agent_id)
    view.remember_retrieval(owner, context.retrieval.request_id, remembered)
    let_through = [
        (item.item_id, one.flags)
        for item, one in zip(items, judged, strict=True)
        if one.flags and one.outcome != "deny"
    ]
    flagged: dict[str, list[str]] = {}
    for item_id, flags in let_through:
        flagged.setdefault(item_id, []).extend(flags)
    view.remember_flags(owner, flagged)
    if flagged:
        view.remember_read(owner, "flagged", let_through[-1][0], len(let_through))
    strangers = [
        item.item_id
        for item, one in zip(items, judged, strict=True)
        if one.outcome in ("pass", "flag") and not (one.check and one.check.is_vouched_for)
    ]
    if strangers:
        view.remember_read(owner, "external", strangers[-1], len(strangers))
