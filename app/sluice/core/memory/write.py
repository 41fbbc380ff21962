"""A proposed memory write, from the session's values to a decision: seen before, judged, then remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.arrival import REPLAYED, memory_id
from sluice.core.foundation.canonical import hex_of
from sluice.core.memory.admitted import Released, admitted
from sluice.core.memory.gate import Judgement
from sluice.core.memory.gate import judge as judge_new
from sluice.core.memory.memory_context import assess
from sluice.core.memory.memory_record import decision_record
from sluice.core.memory.memory_seen import NOTHING_SEEN, read_seen, recorded_seen
from sluice.core.memory.reviews import enter, held_of
from sluice.core.quality_bundle.provenance_request import wanted, wants_resolving
from sluice.core.registry.agent_keys import UNSIGNED_AGENT
from sluice.core.registry.registry_entries import STRANGERS, UNREGISTERED
from sluice.core.state.book import WriteDecided
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import time_records
from sluice.core.state.history import seen as seen_first
from sluice.core.state.nonces import keep_nonce
from sluice.core.state.remembered import RecentWrite
from sluice.core.state.session import who
from sluice.core.state.session_view import SessionView
from sluice.core.state.statistics import Whose

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sluice.core.foundation.arrival import Arrival
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.memory.memory_context import WriteContext
    from sluice.core.memory.memory_seen import RememberedWrite, WriteSeen
    from sluice.core.policy.policy import PointParts, Principal
    from sluice.core.state.book import Change
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState
    from sluice_topics.records import ProposedMemoryWrite

WRITE_ID_CONFLICT = "write_id_conflict"
SESSION_CAPACITY = "session_capacity"


class DecidedWrite(NamedTuple):
    """What came of a write: its decision's record, and the judgement in it. `judgement.action` is what is
    published, `shadow` the one that shadow mode hides; `repeats`: it was decided before. `released`: the
    content for the store that keeps it. `apart`: its session does not change."""

    record: OutRecord
    context: WriteContext
    judgement: Judgement
    shadow: str | None
    repeats: bool
    released: OutRecord | None = None
    apart: bool = False


def evaluate(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, state: SessionState, shared: Shared
) -> Generator[Request, Answer, Decision]:
    """Decide on a write: read the state, judge the write, and keep what came of it.

    What the partition keeps is looked at again after the last answer, since other sessions went on meanwhile.
    """
    view = SessionView(state, parts.limits, arrival.timestamp_ms)
    principal = parts.policy.principal(write.agent_id)
    seen = read_seen(arrival, write, view, shared, principal)
    judged = yield from judge(parts, arrival, write, principal, seen)
    return _keep(parts, arrival, judged, view, shared)


def judge_again(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, decision: Mapping[str, Any]
) -> Generator[Request, Answer, OutRecord]:
    """The decision on a write of which `decision` says what was seen of state."""
    principal, seen = parts.policy.principal(write.agent_id), recorded_seen(decision, write)
    return (yield from judge(parts, arrival, write, principal, seen)).record


def judge(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, principal: Principal, seen: WriteSeen
) -> Generator[Request, Answer, DecidedWrite]:
    """Judge a write on what was seen of state. An id seen within its window is answered from memory."""
    signature, known = arrival.signature, seen.known
    if signature is not None and signature.refusal is not None:
        return _unsigned(parts, arrival, write, principal, signature.refusal)
    context = assess(parts, arrival, write, principal, seen)
    if known is not None and known.digest == hex_of(arrival.digest):
        return _repeat(arrival, context, known)
    if signature is not None and signature.novelty == "replayed":
        return _unsigned(parts, arrival, write, principal, REPLAYED)
    if known is not None:
        judgement = Judgement("reject", f"{WRITE_ID_CONFLICT}: {write.write_id}")
    elif not seen.room:
        judgement = Judgement("reject", SESSION_CAPACITY)
    else:
        judgement = yield from judge_new(context)
    shadow = _shadowed(context, judgement)
    record = decision_record(arrival, context, judgement, shadow, None)
    released = _released(arrival, context, judgement) if judgement.action == "allow" else None
    return DecidedWrite(record, context, judgement, shadow, repeats=False, released=released)


def _unsigned(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, principal: Principal, refusal: str
) -> DecidedWrite:
    """Reject a write that its agent did not sign, under shadow too: it is not the agent's. Nothing of its
    session is read, and nothing of it is remembered."""
    context = assess(parts, arrival, write, principal, NOTHING_SEEN)
    judgement = Judgement("reject", f"{UNSIGNED_AGENT}: {refusal}")
    record = decision_record(arrival, context, judgement, None, None)
    return DecidedWrite(record, context, judgement, None, repeats=False, apart=True)


def _keep(
    parts: PointParts, arrival: Arrival, judged: DecidedWrite, view: SessionView, shared: Shared
) -> Decision:
    """The changes of session and partition, and all records. A repeat counts nowhere and releases nothing."""
    if judged.apart:
        whose = Whose(judged.context.tenant, judged.context.write.agent_id)
        return Decision((), [judged.record], (WriteDecided(whose, judged.judgement.action),))
    records = [*time_records(view), judged.record]
    keep_nonce(view, who(judged.context.tenant, judged.context.write.agent_id), arrival)
    if judged.repeats:
        return Decision(view.changes(), records)
    context, judgement = judged.context, judged.judgement
    whose = Whose(context.tenant, "" if context.agent is None else context.agent.id)
    changes: list[Change] = [WriteDecided(whose, judgement.action)]
    if judgement.action == "quarantine":
        held = held_of(arrival, context, judgement)
        entered, left = enter(arrival, held, judgement.reason, shared.book, parts.limits.max_quarantine)
        records += entered
        changes += left
    if judged.released is not None:
        records.append(judged.released)
    if judgement.action != "reject":
        records += _wanted(context, shared)
    if context.seen.known is None and context.seen.room:
        records += _remembered(arrival, context, judgement, judged.shadow, view)
    return Decision(view.changes(), records, tuple(changes))


def _shadowed(context: WriteContext, judged: Judgement) -> str | None:
    """Under shadow everything is let through; what would have been done is the return value."""
    if context.org.enforcement != "shadow":
        return None
    real, judged.action = judged.action, "allow"
    return real


def _wanted(context: WriteContext, shared: Shared) -> list[OutRecord]:
    """Its provenance is resolved now, in the background, so that it is recorded when the memory is read."""
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
    arrival: Arrival, context: WriteContext, judged: Judgement, shadow: str | None, view: SessionView
) -> list[OutRecord]:
    """Keep the write and its source in the session; a source that is new is reported to the partition that
    owns it."""
    write = context.write
    if context.tenant == UNREGISTERED:
        return []
    remembered = RecentWrite(
        hex_of(arrival.digest),
        arrival.offset,
        view.now,
        judged.action,
        shadow,
        None if judged.trust is None else judged.trust.total,
    )
    owner = who(context.tenant, write.agent_id)
    view.remember_write(owner, write.write_id, remembered)
    source_type = context.source_type
    new = context.seen.session_type is None and context.seen.history.type is None
    view.remember_source(owner, write.source.id, source_type, arrival.timestamp_ms)
    if source_type in STRANGERS:
        view.remember_read(owner, "external", write.write_id)
    if is_held(judged.action if shadow is None else shadow, was_scored=judged.trust is not None):
        view.remember_read(owner, "held", write.write_id)
    return [seen_first(context.name, source_type, context.memory_id, context.now_ms)] if new else []


def is_held(action: str, *, was_scored: bool) -> bool:
    """Whether a write was kept from the memory for what it says, and not for its metadata. `action`: without
    shadow mode."""
    return was_scored and action != "allow"


def _repeat(arrival: Arrival, context: WriteContext, known: RememberedWrite) -> DecidedWrite:
    """The same answer again."""
    first = memory_id(f"{arrival.topic}:{arrival.partition}:{known.offset}")
    judgement = Judgement(known.action, f"duplicate_of: {first}")
    record = decision_record(arrival, context, judgement, known.shadow, first)
    return DecidedWrite(record, context, judgement, known.shadow, repeats=True)
