"""A held memory's life: entered by a decision, ended by a reviewer, by time or by a full quarantine."""

from typing import Annotated, Literal

from pydantic import Field

from topics.records.base import Digest, Id, LedgerRecord, Moment
from topics.records.memory import SourceType, Whole


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
