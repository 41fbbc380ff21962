"""A proposed memory write, from the session's values to a decision: seen before, judged, then remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.canonical import extract_hex
from sluice.core.foundation.input_record import REPLAYED, memory_id
from sluice.core.memory.admitted import Released, release_memory
from sluice.core.memory.gate import WriteJudgement, judge
from sluice.core.memory.memory_record import read_seen, record_decision
from sluice.core.memory.plan import NOTHING_SEEN, assess, observe
from sluice.core.memory.reviews import enter, quarantine_write
from sluice.core.quality_bundle.provenance_request import is_resolution_due, request_resolution
from sluice.core.registry.agent_keys import UNSIGNED_AGENT
from sluice.core.registry.registry_entries import STRANGERS, UNREGISTERED
from sluice.core.state.book import WriteDecided
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import make_time_records
from sluice.core.state.history import record_seen as seen_first
from sluice.core.state.nonces import keep_nonce
from sluice.core.state.remembered import RecentWrite
from sluice.core.state.session_view import SessionView
from sluice.core.state.statistics import Whose

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.memory.plan import RememberedWrite, WriteContext
    from sluice.core.policy.policy import PointParts
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
    judgement: WriteJudgement
    shadow: str | None
    repeats: bool
    released: OutRecord | None = None
    apart: bool = False


def evaluate(
    parts: PointParts,
    input_record: InputRecord,
    write: ProposedMemoryWrite,
    state: SessionState,
    shared: Shared,
) -> Generator[Request, Answer, Decision]:
    """Decide on a write: read the state, judge the write, and keep what came of it.

    What the partition keeps is looked at again after the last answer, since other sessions went on meanwhile.
    """
    view, plan = SessionView(state, parts.limits, input_record.timestamp_ms), parts.plan_write(write)
    context = assess(
        parts.policy, plan, input_record, write, observe(plan.owner, input_record, write, view, shared)
    )
    decided = yield from decide(context)
    return _keep(decided, view, shared, parts)


def judge_again(
    parts: PointParts, input_record: InputRecord, write: ProposedMemoryWrite, decision: Mapping[str, Any]
) -> Generator[Request, Answer, OutRecord]:
    """The decision on a write of which `decision` says what was seen of state."""
    observed = read_seen(decision, write)
    context = assess(parts.policy, parts.plan_write(write), input_record, write, observed)
    return (yield from decide(context)).record


def decide(context: WriteContext) -> Generator[Request, Answer, DecidedWrite]:
    """Judge a write on what was seen of state. An id seen within its window is answered from memory."""
    input_record, previous = context.input_record, context.observed.previous
    signature = input_record.signature
    if signature is not None and signature.refusal is not None:
        return _reject_unsigned(context, signature.refusal)
    if previous is not None and previous.digest == extract_hex(input_record.digest):
        return _repeat(context, previous)
    if signature is not None and signature.novelty == "replayed":
        return _reject_unsigned(context, REPLAYED)
    if previous is not None:
        judgement = WriteJudgement("reject", f"{WRITE_ID_CONFLICT}: {context.write.write_id}")
    elif not context.observed.has_capacity:
        judgement = WriteJudgement("reject", SESSION_CAPACITY)
    else:
        judgement = yield from judge(context)
    shadow = None
    if context.plan.is_shadowed:
        shadow, judgement.action = judgement.action, "allow"
    record = record_decision(context, judgement, shadow, None)
    released = _release(context, judgement, record) if judgement.action == "allow" else None
    return DecidedWrite(record, context, judgement, shadow, repeats=False, released=released)


def _reject_unsigned(context: WriteContext, refusal: str) -> DecidedWrite:
    """Reject a write that its agent did not sign, under shadow too: it is not the agent's. Nothing of its
    session is recorded, and nothing of it is remembered."""
    context.observed = NOTHING_SEEN
    judgement = WriteJudgement("reject", f"{UNSIGNED_AGENT}: {refusal}")
    record = record_decision(context, judgement, None, None)
    return DecidedWrite(record, context, judgement, None, repeats=False, apart=True)


def _keep(decided: DecidedWrite, view: SessionView, shared: Shared, parts: PointParts) -> Decision:
    """The changes of session and partition, and all records. A repeat counts nowhere and releases nothing."""
    context, judgement = decided.context, decided.judgement
    plan, input_record = context.plan, context.input_record
    if decided.apart:
        whose = Whose(plan.tenant, context.write.agent_id)
        return Decision((), [decided.record], (WriteDecided(whose, judgement.action),))
    records = [decided.record]
    if view.refused or view.restarted:
        records[:0] = make_time_records(view)
    if input_record.signature is not None:
        keep_nonce(view, plan.owner, input_record)
    if decided.repeats:
        return Decision(view.changes(), records)
    changes: list[Change] = [WriteDecided(plan.whose, judgement.action)]
    if judgement.action == "quarantine":
        memory = quarantine_write(context, judgement)
        entered, left = enter(
            input_record, memory, judgement.reason, shared.book, parts.limits.max_quarantine
        )
        records += entered
        changes += left
    if decided.released is not None:
        records.append(decided.released)
    if judgement.action != "reject":
        records += _request_provenance(context, shared)
    if context.observed.previous is None and context.observed.has_capacity and plan.tenant != UNREGISTERED:
        records += _remember(context, judgement, decided.shadow, view)
        if parts.values_key is not None:
            name, source = f"m{input_record.offset}", context.write.source.id
            view.remember_content(plan.owner, name, source, context.write.content, parts.values_key)
    return Decision(view.changes(), records, tuple(changes))


def _request_provenance(context: WriteContext, shared: Shared) -> list[OutRecord]:
    """Its provenance is resolved now, in the background, so that it is recorded when the memory is read."""
    plan, uri = context.plan, context.write.provenance_uri
    quality = plan.principal.quality
    if quality is None or plan.agent is None or not isinstance(uri, str):
        return []
    if not is_resolution_due(plan.tenant, uri, shared.provenance, quality, context.now_ms):
        return []
    return [request_resolution(plan.tenant, uri, "write", context.now_ms)]


def _release(context: WriteContext, judged: WriteJudgement, record: OutRecord) -> OutRecord:
    """`record`: the decision, which names the same input."""
    memory = Released(
        context.memory_id,
        context.plan.tenant,
        context.source_type,
        context.content_digest,
        judged.total or 0,
        record.body["input"],
        context.make_released_quality(),
    )
    write, opened = context.write, context.input_record.opened
    if opened is not None:
        write = write.model_copy(update={"content": opened.sealed["content"]})
    return release_memory(write, memory, context.now_ms)


def _remember(
    context: WriteContext, judged: WriteJudgement, shadow: str | None, view: SessionView
) -> list[OutRecord]:
    """Keep the write and its source in the session; a source that is new is reported to the partition that
    owns it."""
    write, input_record, owner = context.write, context.input_record, context.plan.owner
    source_type = context.source_type
    view.remember_write(
        owner,
        write.write_id,
        RecentWrite(
            extract_hex(input_record.digest),
            input_record.offset,
            view.now,
            judged.action,
            shadow,
            judged.total,
        ),
    )
    view.remember_source(owner, write.source.id, source_type, context.now_ms)
    if source_type in STRANGERS:
        view.remember_read(owner, "external", write.write_id)
    if is_held(judged.action if shadow is None else shadow, was_scored=judged.scored is not None):
        view.remember_read(owner, "held", write.write_id)
    if context.observed.session_type is not None or context.observed.history.type is not None:
        return []
    return [seen_first(context.name, source_type, context.memory_id, context.now_ms)]


def is_held(action: str, *, was_scored: bool) -> bool:
    """Whether a write was kept from the memory for what it says, and not for its metadata. `action`: without
    shadow mode."""
    return was_scored and action != "allow"


def _repeat(context: WriteContext, previous: RememberedWrite) -> DecidedWrite:
    """The decision on a write that was decided before: the same action, and the first one's id."""
    input_record = context.input_record
    first = memory_id(f"{input_record.topic}:{input_record.partition}:{previous.offset}")
    judgement = WriteJudgement(previous.action, f"duplicate_of: {first}")
    record = record_decision(context, judgement, previous.shadow, first)
    return DecidedWrite(record, context, judgement, previous.shadow, repeats=True)
