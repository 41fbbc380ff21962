"""A proposed retrieval, from the session's values to a decision: every item judged, then remembered.

Nothing is asked of anybody on this way (seed 004, "Deployment": no network hop on the read path): provenance
is judged on what is recorded of it. The one exception is a model that judges bodies, where the quality bundle
says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.foundation.input_record import escalation_id, quality_id
from sluice.core.foundation.requests import LAST_PAUSE
from sluice.core.quality_bundle.provenance_request import request_resolution
from sluice.core.registry.agent_keys import UNSIGNED_AGENT
from sluice.core.registry.review_signing import may_still_sign
from sluice.core.retrieval.body_opinions import ask_about
from sluice.core.retrieval.judgement import Judged, judge
from sluice.core.retrieval.plan import ItemApproval, assess
from sluice.core.retrieval.quality_record import read_resolutions, record_decision, share_fields
from sluice.core.retrieval.served import record_served, withhold
from sluice.core.state.book import EscalationKept
from sluice.core.state.decision import Decision
from sluice.core.state.escalation import Escalation
from sluice.core.state.escalation_records import open_in
from sluice.core.state.expiry import make_time_records
from sluice.core.state.nonces import keep_nonce
from sluice.core.state.recent_retrieval import RecentRetrieval, item_mark
from sluice.core.state.session_view import SessionView
from sluice_topics.catalog import ESCALATIONS, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.policy import PointParts
    from sluice.core.retrieval.plan import RetrievalContext, RetrievalPlan
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState
    from sluice_topics.records import ProposedRetrieval


SCHEMA = "sluice/retrieval_escalation_opened/v1"
_OF_ITEMS = escalation_id(RETRIEVALS)
TIER = "high_privilege"
ROLE = "approver"
ACTION_TIER = "T3"
"""As many approvals as an action of this tier needs."""


def find_escalation(context: RetrievalContext, judged: Iterable[Judged]) -> str | None:
    """The id of the escalation that a request opens, None if it opens none.

    Seed 004, "Interaction with HITL": every flag to a person would end in approval fatigue. A person answers
    with an approval or a signed override (registry kind quality_override), and the agent asks again.
    """
    quality, category = context.plan.quality, context.retrieval.tool_category
    if quality is None or category is None or context.plan.tier != TIER:
        return None
    if category.casefold() not in quality.high_impact or not any(item.denied_for_quality for item in judged):
        return None
    return escalation_id(context.input_record.decision_id)


def record_opened(
    context: RetrievalContext, an_id: str, denied: Sequence[dict[str, Any]], ttl_ms: int
) -> OutRecord:
    """RetrievalEscalationOpened; `denied` are the decision records of the items that wait."""
    input_record, retrieval, now = context.input_record, context.retrieval, context.now_ms
    body = {
        "schema": SCHEMA,
        "escalation_id": an_id,
        "request_id": retrieval.request_id,
        "request_hash": input_record.digest,
        "agent_id": retrieval.agent_id,
        "session_id": retrieval.session_id,
        "tenant_id": context.plan.tenant,
        "tool_category": retrieval.tool_category,
        "items": [withhold(record) for record in denied],
        "reason": denied[0]["reason"],
        "required_role": ROLE,
        "opened_at": rfc3339(now),
        "expires_at": rfc3339(now + ttl_ms),
        "decided_at": rfc3339(now),
        "input": input_record.coordinates(),
    }
    quorum = context.plan.bundle.approvals.count_needed(ACTION_TIER)
    if quorum > 1:
        body["quorum"] = quorum
    if context.plan.bundle.approvals.demands_own_key(ACTION_TIER):
        body["own_key"] = True
    return OutRecord(ESCALATIONS, "RetrievalEscalationOpened", body, retrieval.session_id)


def evaluate(
    parts: PointParts,
    input_record: InputRecord,
    retrieval: ProposedRetrieval,
    state: SessionState,
    shared: Shared,
) -> Generator[Request, Answer, Decision]:
    """Decide on every item. A request that comes again is judged again: an item may have grown old; what its
    agent did not sign is no answer, and neither is a repeat of what it signed. Where another approval stands
    behind the last pause, the items are judged again."""
    view, plan = SessionView(state, parts.limits, input_record.timestamp_ms), parts.plan_retrieval(retrieval)
    approved = shared.book.approval_of(retrieval.session_id, input_record.digest)
    approval = None if approved is None else _find_approval(plan, approved, input_record.timestamp_ms)
    context = assess(plan, input_record, retrieval, shared.provenance, approval)
    refusal = None if input_record.signature is None else input_record.signature.find_refusal()
    if refusal is not None:
        denied = [_deny_unsigned(context, index, refusal) for index in range(len(retrieval.items))]
        return Decision((), _record_all(context, denied, find_escalation(context, denied)))
    judged = [judge(context, index) for index in range(len(retrieval.items))]
    yield LAST_PAUSE
    left = shared.book.approval_of(retrieval.session_id, input_record.digest)
    if left != approved:
        approval = None if left is None else _find_approval(plan, left, input_record.timestamp_ms)
        context = assess(plan, input_record, retrieval, shared.provenance, approval)
        judged = [judge(context, index) for index in range(len(retrieval.items))]
    if plan.is_judged and any(item.asks for item in judged):
        yield from ask_about(context, judged)
    return _keep(parts, context, judged, view, shared)


def _keep(
    parts: PointParts,
    context: RetrievalContext,
    judged: Sequence[Judged],
    view: SessionView,
    shared: Shared,
) -> Decision:
    """The changes of session and partition, and all records. What the partition keeps is looked at again
    after the last answer, since other sessions went on meanwhile."""
    plan, input_record = context.plan, context.input_record
    escalation = find_escalation(context, judged)
    records = _record_all(context, judged, escalation)
    if view.refused or view.restarted:
        records[:0] = make_time_records(view)
    if input_record.signature is not None:
        keep_nonce(view, plan.owner, input_record)
    _remember(view, context, judged, input_record.offset)
    if parts.values_key is not None:
        _remember_bodies(view, context, judged, parts.values_key)
    changes: tuple[EscalationKept, ...] = ()
    if context.approval is not None and any(isinstance(item.override, ItemApproval) for item in judged):
        approved = shared.book.approval_of(context.retrieval.session_id, input_record.digest)
        if approved is not None:
            changes = (EscalationKept(approved._replace(outcome="ALLOW")),)
    if escalation is not None:
        evicted, opening = open_in(
            shared.book, _open_escalation(context, escalation), parts.limits.max_escalations
        )
        records += evicted
        changes += opening
    return Decision(view.changes(), records, changes)


def judge_again(
    parts: PointParts, input_record: InputRecord, retrieval: ProposedRetrieval, decision: Mapping[str, Any]
) -> Generator[Request, Answer, OutRecord]:
    """The decision on the one item of which `decision` says where its reference led. Raises IndexError."""
    plan, index = parts.plan_retrieval(retrieval), decision["place"]
    approval = _read_approval(plan, decision["override"], input_record.timestamp_ms)
    context = assess(plan, input_record, retrieval, read_resolutions(decision), approval)
    refusal = None if input_record.signature is None else input_record.signature.find_refusal()
    item = judge(context, index) if refusal is None else _deny_unsigned(context, index, refusal)
    yield from ask_about(context, [item])
    escalation = find_escalation(context, [item])
    return record_decision(share_fields(context), retrieval.items[index], item, index, escalation)


def _open_escalation(context: RetrievalContext, an_id: str) -> Escalation:
    """The escalation that a request opens, bound to the digest of exactly this request."""
    plan, input_record, retrieval, now = context.plan, context.input_record, context.retrieval, context.now_ms
    ttl_ms = 0 if plan.quality is None else plan.quality.escalation_ttl_ms
    return Escalation(
        an_id,
        quality_id(input_record.decision_id, 0),
        retrieval.request_id,
        retrieval.agent_id,
        retrieval.session_id,
        context.plan.tenant,
        retrieval.tool_name or "",
        input_record.digest,
        ACTION_TIER,
        ROLE,
        context.plan.bundle.approvals.count_needed(ACTION_TIER),
        input_record.topic,
        input_record.partition,
        input_record.offset,
        now,
        now + ttl_ms,
        own_key=context.plan.bundle.approvals.demands_own_key(ACTION_TIER),
    )


def _find_approval(plan: RetrievalPlan, approved: Escalation, now_ms: int) -> ItemApproval | None:
    """The approval of an earlier request of the same bytes, as long as it, its last approver and the delegate
    that signed it are in force."""
    if now_ms >= approved.usable_until_ms:
        return None
    last = approved.votes[-1]
    if not may_still_sign(plan.registry, last.delegate, (plan.tenant, ROLE), now_ms):
        return None
    until, justification = approved.usable_until_ms, approved.justification
    return _check_approval(plan, approved.escalation_id, last.approver_id, until, justification, now_ms)


def _read_approval(
    plan: RetrievalPlan, override: Mapping[str, Any] | None, now_ms: int
) -> ItemApproval | None:
    """What a record says of the approval that let its item through; None: none did."""
    if override is None or not override["override_id"].startswith(_OF_ITEMS):
        return None
    until, name = read_milliseconds(override["expires_at"]), override["approver_id"]
    return _check_approval(plan, override["override_id"], name, until, override["justification"], now_ms)


def _check_approval(
    plan: RetrievalPlan, an_id: str, name: str, until_ms: int, justification: str, now_ms: int
) -> ItemApproval | None:
    approver = plan.registry.approvers.get(name)
    if approver is None or not approver.acts_for(plan.tenant, now_ms):
        return None
    return ItemApproval(an_id, approver.key, approver.hash, name, until_ms, justification)


def _deny_unsigned(context: RetrievalContext, index: int, refusal: str) -> Judged:
    """Denied under flag-only and shadow too: the request is not the agent's."""
    judged = Judged(index, context.bodies[index])
    judged.denies("controls", "UNSIGNED_AGENT", f"{UNSIGNED_AGENT}: {refusal}")
    return judged


def _record_all(
    context: RetrievalContext, judged: Sequence[Judged], escalation: str | None
) -> list[OutRecord]:
    """The decision on each item, the escalation that they open, what is served and what is to be resolved."""
    common, items = share_fields(context), context.retrieval.items
    decided: list[OutRecord] = []
    bodies: list[dict[str, Any]] = []
    uris: dict[Any, None] = {}
    for index, item in enumerate(judged):
        record = record_decision(common, items[index], item, index, escalation)
        decided.append(record)
        bodies.append(record.body)
        if item.check is not None and item.check.wanted:
            uris[items[index].provenance_uri] = None
    if escalation is not None:
        decided.append(_record_escalation(context, escalation, bodies))
    decided.append(record_served(context, common, bodies, judged))
    if uris:
        decided += [request_resolution(context.plan.tenant, uri, "retrieval", context.now_ms) for uri in uris]
    return decided


def _record_escalation(
    context: RetrievalContext, escalation: str, bodies: Sequence[dict[str, Any]]
) -> OutRecord:
    denied = [body for body in bodies if body["escalation_id"] is not None]
    quality = context.plan.quality
    return record_opened(context, escalation, denied, 0 if quality is None else quality.escalation_ttl_ms)


def _remember(view: SessionView, context: RetrievalContext, judged: Sequence[Judged], offset: int) -> None:
    """The session keeps which items were decided on, the flags of those that were let through, and that
    untrusted content was among them."""
    plan, items = context.plan, context.retrieval.items
    owner = plan.owner
    marks = "".join([item_mark(item.item_id) for item in items])
    remembered = RecentRetrieval(plan.tier, marks, view.now, offset)
    view.remember_retrieval(owner, context.retrieval.request_id, remembered)
    flagged: dict[str, list[str]] = {}
    flags, last_flagged, strangers, last_stranger = 0, "", 0, ""
    for judged_item in judged:
        item_id = items[judged_item.position].item_id
        if judged_item.flags and judged_item.outcome != "deny":
            flags, last_flagged = flags + 1, item_id
            flagged.setdefault(item_id, []).extend(judged_item.flags)
        if judged_item.outcome in ("pass", "flag") and not (
            judged_item.check and judged_item.check.is_vouched_for
        ):
            strangers, last_stranger = strangers + 1, item_id
    if flagged:
        view.remember_flags(owner, flagged)
        view.remember_read(owner, "flagged", last_flagged, flags)
    if strangers:
        view.remember_read(owner, "external", last_stranger, strangers)


_NAMED_ITEMS = 8
"""Items of one retrieval whose values are kept under their own names; those of more are kept together."""


def _remember_bodies(
    view: SessionView, context: RetrievalContext, judged: Sequence[Judged], master: bytes
) -> None:
    """The session keeps the values in the bodies that were let through."""
    owner, offset, items = context.plan.owner, context.input_record.offset, context.retrieval.items
    served = [items[item.position] for item in judged if item.outcome != "deny"]
    bodies = [(item.item_id, item.body) for item in served if item.body is not None]
    if len(bodies) > _NAMED_ITEMS:
        bodies = [(context.retrieval.request_id, [body for _, body in bodies])]
    for number, (source, body) in enumerate(bodies):
        view.remember_content(owner, f"r{offset}.{number}", source, body, master)
