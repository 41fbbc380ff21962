"""A proposed memory write, from the session's values to a decision: seen before, judged, then remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.foundation.ids import memory_id
from app.core.memory.admitted import Released, admitted
from app.core.memory.context import assess
from app.core.memory.gate import Judgement, judge
from app.core.memory.quarantine import enter, held_of
from app.core.memory.record import decision_record
from app.core.quality_bundle.provenance_request import wanted, wants_resolving
from app.core.registry.registry_entries import UNREGISTERED
from app.core.state.book import Decided
from app.core.state.decision import Decision
from app.core.state.draft import SessionDraft
from app.core.state.expiry import time_records
from app.core.state.history import seen
from app.core.state.remembered import RecentWrite
from app.core.state.session import who
from app.core.state.statistics import Whose

if TYPE_CHECKING:
    from collections.abc import Generator

    from app.core.foundation.arrival import Arrival
    from app.core.foundation.chain import OutRecord
    from app.core.foundation.requests import Answer, Request
    from app.core.memory.context import WriteContext
    from app.core.policy.point import PointParts
    from app.core.state.book import Change
    from app.core.state.decision import Shared
    from app.core.state.session import SessionState
    from topics.records import ProposedMemoryWrite

WRITE_ID_CONFLICT = "write_id_conflict"
SESSION_CAPACITY = "session_capacity"
_DIGEST_PREFIX = len("sha256:")


def evaluate(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, state: SessionState, shared: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on a write. An id seen within its window is answered from memory: nothing is judged.

    What the partition keeps is looked at again after the last answer, since other sessions went on meanwhile.
    """
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    context = assess(parts, arrival, write, draft, shared)
    known = context.view.known
    if known is not None and known.digest == arrival.digest[_DIGEST_PREFIX:]:
        return _repeat(arrival, context, known, draft)
    if known is not None:
        judged = Judgement("reject", f"{WRITE_ID_CONFLICT}: {write.write_id}")
    elif not context.view.room:
        judged = Judgement("reject", SESSION_CAPACITY)
    else:
        judged = yield from judge(context)
    return _decide(parts, arrival, context, judged, draft, shared)


def whose(context: WriteContext) -> Whose:
    """Whose statistics the decision counts in."""
    return Whose(context.tenant, "" if context.agent is None else context.agent.id)


def _decide(
    parts: PointParts,
    arrival: Arrival,
    context: WriteContext,
    judged: Judgement,
    draft: SessionDraft,
    shared: Shared,
) -> Decision:
    records = time_records(draft)
    changes: list[Change] = []
    shadow = _shadowed(context, judged)
    records.append(decision_record(arrival, context, judged, shadow, None))
    changes.append(Decided(whose(context), judged.action))
    if judged.action == "quarantine":
        held = held_of(arrival, context, judged)
        entered, left = enter(arrival, held, judged.reason, shared.book, parts.limits.max_quarantine)
        records += entered
        changes += left
    if judged.action == "allow":
        records.append(_released(arrival, context, judged))
    if judged.action != "reject":
        records += _wanted(context, shared)
    if context.view.known is None and context.view.room:
        records += _remembered(arrival, context, judged, shadow, draft)
    return Decision(draft.transition(), records, tuple(changes))


def _shadowed(context: WriteContext, judged: Judgement) -> str | None:
    """Under shadow everything is let through; what would have been done is the return value."""
    if context.org.enforcement != "shadow":
        return None
    real, judged.action = judged.action, "allow"
    return real


def _wanted(context: WriteContext, shared: Shared) -> list[OutRecord]:
    """Its provenance is resolved now, beside the decision, so that it is recorded when the memory is read."""
    quality, uri = context.quality, context.write.provenance_uri
    if quality is None or context.agent is None or not isinstance(uri, str):
        return []
    if not wants_resolving(context.tenant, uri, shared.provenance, quality, context.now_ms):
        return []
    return [wanted(context.tenant, uri, "write", context.now_ms)]


def _released(arrival: Arrival, context: WriteContext, judged: Judgement) -> OutRecord:
    trust = 0 if judged.trust is None else judged.trust.total
    memory = Released(
        context.memory_id,
        context.tenant,
        context.source_type,
        context.content_digest,
        trust,
        arrival.coordinates(),
    )
    return admitted(context.write, memory, context.now_ms)


def _remembered(
    arrival: Arrival, context: WriteContext, judged: Judgement, shadow: str | None, draft: SessionDraft
) -> list[OutRecord]:
    """Keep the write and its source in the session; a source that nobody has seen is told to its owner."""
    write = context.write
    if context.tenant == UNREGISTERED:
        return []
    remembered = RecentWrite(
        arrival.digest[_DIGEST_PREFIX:],
        arrival.offset,
        draft.now,
        judged.action,
        shadow,
        None if judged.trust is None else judged.trust.total,
    )
    owner = who(context.tenant, write.agent_id)
    draft.remember_write(owner, write.write_id, remembered)
    new = context.view.session_type is None and context.view.history.type is None
    draft.remember_source(owner, write.source.id, context.source_type, arrival.timestamp_ms)
    return [seen(context.name, context.source_type, context.memory_id, context.now_ms)] if new else []


def _repeat(arrival: Arrival, context: WriteContext, known: RecentWrite, draft: SessionDraft) -> Decision:
    """The same answer again. It counts nowhere, and nothing is released a second time."""
    records = time_records(draft)
    first = memory_id(f"{arrival.topic}:{arrival.partition}:{known.offset}")
    judged = Judgement(known.action, f"duplicate_of: {first}")
    records.append(decision_record(arrival, context, judged, known.shadow, first))
    return Decision(draft.transition(), records)
