"""What happens around memories: a held memory's life, what is known of its source, where its references lead.

A held memory is entered by a decision and ended by a reviewer, by time or by a full quarantine. A source's
feedback is folded into one history across sessions, by the owner of its partition. References are to be
resolved; the newest resolution counts.
"""

from typing import Annotated, Literal

from pydantic import Field

from sluice_topics.records.base import BY_DELEGATE, DelegateSeen, Digest, Id, LedgerRecord, Moment, Record
from sluice_topics.records.memory import SourceType, Whole


class _Held(LedgerRecord):
    memory_id: Id
    write_id: Id
    agent_id: Id
    session_id: Id
    tenant_id: Id
    source_id: Id
    source_type: SourceType
    content_digest: Annotated[Digest, Field(description="a review counts for exactly this content")]
    held: Annotated[str, Field(description="topic:partition:offset of the input that holds the content")]
    trust: Annotated[float, Field(ge=-1, le=1)]
    entered_at: Moment
    expires_at: Moment


class QuarantineEntered(_Held):
    """A memory waits for a reviewer; its content stays in the input topic."""

    schema_name: Annotated[Literal["sluice/quarantine_entered/v1"], Field(alias="schema")]
    reason: Annotated[str, Field(min_length=1)]
    review_after_ms: Annotated[Whole, Field(alias="reviewAfterMs")]


class _Reviewed(_Held):
    approver_id: Id
    approver_entry: Annotated[Id, Field(description="kind/id@revision of the entry that gives the right")]
    approver_hash: Digest
    justification: Annotated[str, Field(min_length=1)]
    delegate: Annotated[DelegateSeen | None, BY_DELEGATE] = None


class QuarantineApproved(_Reviewed):
    """A reviewer let it through; its content is in gate.memory.admitted."""

    schema_name: Annotated[Literal["sluice/quarantine_approved/v1"], Field(alias="schema")]


class QuarantineRejected(_Reviewed):
    """A reviewer discarded it."""

    schema_name: Annotated[Literal["sluice/quarantine_rejected/v1"], Field(alias="schema")]


class QuarantineExpired(_Held):
    """Nobody decided in time: discarded."""

    schema_name: Annotated[Literal["sluice/quarantine_expired/v1"], Field(alias="schema")]
    reason: Annotated[str, Field(min_length=1)]


class QuarantineEvicted(_Held):
    """The oldest made room for a newer one: discarded."""

    schema_name: Annotated[Literal["sluice/quarantine_evicted/v1"], Field(alias="schema")]
    reason: Annotated[str, Field(min_length=1)]
    by: Annotated[Id, Field(description="memory_id of the one that needed the room")]


class SourceFeedback(Record):
    """One thing learnt of a source; key of the message: `source_key`, whose partition's owner folds it."""

    schema_name: Annotated[Literal["sluice/source_feedback/v1"], Field(alias="schema")]
    tenant_id: Id
    source_id: Id
    type: SourceType
    verdict: Annotated[
        Literal["seen", "positive", "negative"], Field(description="seen: its first write in a session")
    ]
    memory_id: Id
    decided_at: Moment


class SourceHistory(Record):
    """A source's reviews so far; the newest record under its key counts."""

    schema_name: Annotated[Literal["sluice/source_history/v1"], Field(alias="schema")]
    tenant_id: Id
    source_id: Id
    type: Annotated[SourceType, Field(description="as first seen")]
    positive: Whole
    negative: Whole
    revision: Annotated[int, Field(ge=1)]
    decided_at: Moment


Uri = Annotated[str, Field(min_length=1, max_length=8192)]


class ProvenanceWanted(Record):
    """A reference that a decision came upon and whose recorded resolution is missing or old; key of the
    message: the JSON array [tenant_id, uri]."""

    schema_name: Annotated[Literal["sluice/provenance_wanted/v1"], Field(alias="schema")]
    tenant_id: Id
    uri: Uri
    wanted_by: Literal["write", "retrieval"]
    decided_at: Moment


class ProvenanceRecord(Record):
    """A reference's newest resolution; the newest record under its key counts. Key: [tenant_id, uri]."""

    schema_name: Annotated[Literal["sluice/provenance_record/v1"], Field(alias="schema")]
    tenant_id: Id
    uri: Uri
    status: Literal["resolved", "unresolvable"]
    resolver: Annotated[str, Field(min_length=1, description="how it was resolved: http")]
    hash: Annotated[Digest | None, Field(description="SHA-256 over the bytes; null: unresolvable")] = None
    detail: Annotated[str, Field(max_length=1024, description="why it could not be resolved; else empty")]
    size: Annotated[Whole | None, Field(description="bytes")] = None
    etag: Annotated[str | None, Field(max_length=1024)] = None
    last_modified: Annotated[str | None, Field(max_length=128)] = None
    seen_at: Annotated[Whole, Field(description="when it was resolved, ms since 1970")]
