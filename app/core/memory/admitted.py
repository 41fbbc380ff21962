"""AdmittedMemory: content that may be kept, released once and in the same transaction as its decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.memory.released_fields import released_quality
from topics.catalog import ADMITTED

if TYPE_CHECKING:
    from topics.records import ProposedMemoryWrite

SCHEMA = "sluice/admitted_memory/v1"


class Released(NamedTuple):
    """What is known of the memory beside its write: `source_type` is the one that counted, `coordinates` are
    the write's, whoever released it."""

    memory_id: str
    tenant: str
    source_type: str
    content_digest: str
    trust: float
    coordinates: dict[str, Any]


def admitted(
    write: ProposedMemoryWrite, memory: Released, now_ms: int, approver_id: str | None = None
) -> OutRecord:
    """`approver_id`: who let it through, None where the gate itself did."""
    body = {
        "schema": SCHEMA,
        "memory_id": memory.memory_id,
        "write_id": write.write_id,
        "agent_id": write.agent_id,
        "session_id": write.session_id,
        "tenant_id": memory.tenant,
        "how": "allowed" if approver_id is None else "approved",
        "approver_id": approver_id,
        "content": write.content,
        "content_digest": memory.content_digest,
        "source": {"id": write.source.id, "type": memory.source_type},
        **released_quality(write),
        "derived_from": write.derived_from,
        "trust": memory.trust,
        "decided_at": rfc3339(now_ms),
        "input": memory.coordinates,
    }
    return OutRecord(ADMITTED, "AdmittedMemory", body, write.session_id)
