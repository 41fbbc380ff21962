"""A decision on a memory write, executed again: session, source and parents are as its `seen` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.decide.inbound import message_of
from app.core.decide.replay import decide
from app.core.foundation.dead_letters import INTERNAL_ERROR
from app.core.foundation.ids import memory_id
from app.core.foundation.limits import SessionLimits
from app.core.memory.record import RERUN_FIELDS
from app.core.registry.registry_entries import UNREGISTERED
from app.core.rerun.rerun_way import Way
from app.core.state.book import Book
from app.core.state.decision import Shared
from app.core.state.held import Held
from app.core.state.history import History, SourceName
from app.core.state.remembered import RecentWrite, Remembered, kept_id
from app.core.state.session import NEVER_DUE_MS, Account, SessionState, session_key, who
from topics.records import ProposedMemoryWrite
from topics.records.memory import MAX_PARENTS

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.rerun.recorded_answers import RecordedAnswers
    from app.core.rerun.rerun_evidence import Points
    from app.core.state.decision import Decision

_DIGEST_PREFIX = len("sha256:")


def _execute(points: Points, memory: dict[str, Any], arrival: Arrival, answers: RecordedAnswers) -> Decision:
    limits = _limits(room=memory["seen"]["room"])
    point = points.point(memory, limits)
    if memory["write_id"] is None:
        return point.unread(arrival)
    tenant = UNREGISTERED if memory["tenant_id"] is None else memory["tenant_id"]
    source_id = source_id_of(arrival)
    state = _session(memory, arrival, tenant, source_id)
    return decide(point, arrival, state, answers.next, shared_with(memory, tenant, source_id))


def _limits(*, room: bool) -> SessionLimits:
    """No time passes in a rebuilt session; whether it has room was recorded. Parents are held memories."""
    return SessionLimits(
        action_window_ms=1,
        idle_timeout_ms=1,
        max_recent_actions=0,
        max_early_outcomes=0,
        max_recent_writes=int(room),
        max_known_sources=1,
        max_quarantine=MAX_PARENTS + 1,
    )


def _session(memory: dict[str, Any], arrival: Arrival, tenant: str, source_id: str) -> SessionState:
    """A session that says of this write what the session said then: the known one, and its source."""
    seen = memory["seen"]
    state = SessionState(session_key(memory["session_id"]))
    state.opened_at = state.last_at = arrival.timestamp_ms
    source = seen["source"]
    entry = (source["session_type"], source["last_at"])
    sources = {} if entry == (None, None) else {kept_id(source_id): entry}
    remembered = Remembered({}, _writes(memory, arrival), sources)
    state.accounts[tenant] = Account(0, 0, {who(tenant, memory["agent_id"]).agent: remembered})
    return state


def _writes(memory: dict[str, Any], arrival: Arrival) -> dict[str, Any]:
    known = memory["seen"]["known"]
    if known is None:
        return {}
    first = memory_id(f"{arrival.topic}:{arrival.partition}:{known['offset']}")
    remembered = RecentWrite(
        known["digest"][_DIGEST_PREFIX:],
        known["offset"],
        arrival.timestamp_ms,
        known["action"],
        known["shadow"],
        _trust_of_parents(memory).get(first),
    )
    return {kept_id(memory["write_id"]): tuple(remembered)}


def _trust_of_parents(memory: dict[str, Any]) -> dict[str, float | None]:
    return {one["memory_id"]: one["trust"] for one in memory["seen"]["parents"]}


def source_id_of(arrival: Arrival) -> str:
    """The source that a memory write names; empty where it cannot be read."""
    write = message_of(arrival)
    return write.source.id if isinstance(write, ProposedMemoryWrite) else ""


def shared_with(memory: dict[str, Any], tenant: str, source_id: str) -> Shared:
    """The source's history of then, and a quarantine in which every parent lies whose trust was known."""
    source = memory["seen"]["source"]
    history = History(source["type"], source["positive"], source["negative"], source["revision"])
    parents = [
        _held(parent, tenant, trust)
        for parent, trust in _trust_of_parents(memory).items()
        if trust is not None
    ]
    book = Book({one.key: one.encode() for one in parents})
    return Shared(book, {SourceName(tenant, source_id): history})


def _held(parent: str, tenant: str, trust: float) -> Held:
    """A memory of which only its trust is looked at; it never expires."""
    return Held(
        parent,
        write_id="",
        agent_id="",
        session_id="",
        tenant=tenant,
        source_id="",
        source_type="",
        content_digest="",
        input_digest="",
        topic="",
        partition=0,
        offset=0,
        trust=trust,
        threshold=0,
        entered_ms=0,
        expires_ms=NEVER_DUE_MS,
    )


def _kept_no_answers(memory: dict[str, Any]) -> bool:
    """A fault of the core leaves no answer that the gate had got."""
    return bool(memory["reason"] == INTERNAL_ERROR)


MEMORY = Way("memory_decision", "MemoryDecision", "memory_id", RERUN_FIELDS, _execute, _kept_no_answers)
