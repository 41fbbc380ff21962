"""Where provenance references lead: what is to be resolved, and what was found the last time."""

from typing import Annotated, Literal

from pydantic import Field

from topics.records.base import Digest, Id, Moment, Record
from topics.records.memory import Whole

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
