"""Answers where the core itself failed on a memory write: rejected, and nothing is remembered of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.foundation.refusals import INTERNAL_ERROR, subject_of
from app.core.memory.admitted import Released, admitted
from app.core.memory.context import digest_of
from app.core.memory.record import hashed, unread_record
from app.core.registry.registry_entries import UNREGISTERED, hashes_of
from app.core.state.book import Decided
from app.core.state.decision import Decision
from app.core.state.statistics import Whose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.foundation.arrival import Arrival
    from app.core.foundation.chain import OutRecord
    from app.core.policy.policy import PointParts, Policy, Principal
    from topics.records import ProposedMemoryWrite

NOBODY = Whose(UNREGISTERED, "")


def unread(parts: PointParts, arrival: Arrival, letter: OutRecord) -> Decision:
    """Reject a write without reading it; `letter` is its dead letter."""
    subject = subject_of(arrival)
    record = unread_record(arrival, parts.policy.default.hash, INTERNAL_ERROR, subject)
    return Decision(None, [record, letter], (Decided(NOBODY, "reject"),))


def fault(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, _: object, letter: OutRecord
) -> Decision:
    """Reject a write that made the core raise; under shadow it is let through as every other."""
    principal = parts.policy.principal(write.agent_id)
    agent = principal.agent
    record = unread_record(arrival, principal.bundle.hash, INTERNAL_ERROR, write.session_id)
    record.body |= {
        "write_id": write.write_id,
        "agent_id": write.agent_id,
        "session_id": write.session_id,
        "tenant_id": principal.tenant_id,
        "traceId": write.trace_id,
        "request_id": write.request_id,
        "registry_hashes": _entries(parts.policy, principal, write),
    }
    whose = NOBODY if agent is None else Whose(agent.tenant, agent.id)
    if agent is None or not principal.is_shadowed:
        hashed(record.body)
        return Decision(None, [record, letter], (Decided(whose, "reject"),))
    record.body |= {"enforcement": "shadow", "action": "allow", "shadowAction": "reject"}
    hashed(record.body)
    memory = Released(
        record.body["memory_id"],
        agent.tenant,
        write.source.type,
        digest_of(write.content),
        0,
        arrival.coordinates(),
    )
    released = admitted(write, memory, arrival.timestamp_ms)
    return Decision(None, [record, released, letter], (Decided(whose, "allow"),))


def kept_no_answers(decision: Mapping[str, Any]) -> bool:
    """A fault of the core leaves no answer that the gate had got."""
    return bool(decision["reason"] == INTERNAL_ERROR)


def _entries(policy: Policy, principal: Principal, write: ProposedMemoryWrite) -> dict[str, str]:
    """Hashes of what stood in the registry for this write, so that a rerun gets to where the core raised."""
    source = policy.registry.sources.get((principal.tenant, write.source.id))
    freezes = policy.freezes_of(principal, write.session_id)
    return hashes_of(principal.agent, principal.org, source, *freezes)
