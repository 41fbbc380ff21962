"""AdmittedMemory: content that may be kept, released once and in the same transaction as its decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.clock import rfc3339
from app.core.decision import OutRecord
from app.core.ledger.canonical import wire_int
from topics.catalog import ADMITTED

if TYPE_CHECKING:
    from topics.records import ProposedMemoryWrite

SCHEMA = "sluice/admitted_memory/v1"
QUALITY_FIELDS = ("content_class", "timestamp", "confidence_score", "provenance_uri", "provenance_hash")
"""As the write gave them. Those of an exempt source, and of writes that nobody judged, are whatever JSON they
sent: what is no short text and no number is left out, or a record could outgrow what the broker takes."""
LONGEST_QUALITY_TEXT = 65_536
MOST_BITS = 4096


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
    quality = {name: _bounded(getattr(write, name)) for name in QUALITY_FIELDS}
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
        **quality,
        "derived_from": write.derived_from,
        "trust": memory.trust,
        "decided_at": rfc3339(now_ms),
        "input": memory.coordinates,
    }
    return OutRecord(ADMITTED, "AdmittedMemory", body, write.session_id)


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_QUALITY_TEXT else None
    if isinstance(value, int):
        return wire_int(value) if value.bit_length() <= MOST_BITS else None
    return value if isinstance(value, float) else None
