"""Memory writes: what an agent wants to remember, what was decided, and what the memory store may keep."""

from typing import Annotated, Any, Literal

from pydantic import Field

from sluice_topics.records.base import (
    FOR_PEOPLE,
    MAX_SAFE_INTEGER,
    Digest,
    Enforcement,
    Id,
    InputCoordinates,
    LedgerRecord,
    Moment,
    Objects,
    Record,
    VerifiedSignature,
    counts,
    ignore,
    tightens,
)

SourceType = Literal["system", "agent", "user", "plugin", "external"]
MemoryAction = Literal["allow", "quarantine", "reject"]
FindingWeight = Literal["weak", "strong", "definite"]
Share = Annotated[float, Field(ge=0, le=1)]
Whole = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
MAX_PARENTS = 256


class MemorySource(Record):
    """Where the content came from. `reliability` is the caller's claim: accepted, never used."""

    id: Annotated[
        Id, counts("names the tenant's history of the source; content findings cap the trust of every source")
    ]
    type: Annotated[
        SourceType,
        counts(
            "the registered type takes precedence, then the first one seen; a mismatch costs trust (seed 003)"
        ),
    ]
    reliability: Annotated[
        Any, Field(description="the caller's claim; ignored (seed 003)"), ignore("never used (seed 003)")
    ] = None


class ProposedMemoryWrite(Record):
    """A memory that an agent wants to keep; key of the message: session_id.

    The quality fields are optional to the reader, whatever they hold: the gate rejects a write that lacks one
    or has it malformed, and names it (seed 004, "Failure modes").
    """

    write_id: Annotated[
        Id,
        counts(
            "repeated in its session's window: with the same bytes it gets the first answer, with other "
            "bytes it is rejected"
        ),
    ]
    agent_id: Annotated[Id, counts("names the registered agent; an unregistered agent is never allowed")]
    session_id: Annotated[Id, counts("it must be the message's key; a source's last write is kept for it")]
    content: Annotated[str, counts("the gate judges it, with every known disguise removed")]
    source: Annotated[MemorySource, counts("field by field, as below")]
    trace_id: Annotated[Id | None, Field(alias="traceId"), FOR_PEOPLE] = None
    request_id: Annotated[Id | None, FOR_PEOPLE] = None
    content_class: Annotated[
        Any,
        Field(description="the class whose time to live and minimum hold"),
        counts("must be there, and be one of the bundle's content_classes if it lists any"),
    ] = None
    timestamp: Annotated[
        Any,
        Field(description="RFC 3339: of the content, not of the write"),
        counts("must be there and no further ahead than the bundle's future_skew_ms"),
    ] = None
    confidence_score: Annotated[
        Any,
        Field(description="0 to 1, the upstream pipeline's"),
        counts("must be there, 0 to 1; a read judges it"),
    ] = None
    provenance_uri: Annotated[
        Any,
        Field(description="an external, resolvable reference"),
        counts("must be there, of a scheme that the bundle has, and not the memory itself"),
    ] = None
    provenance_hash: Annotated[
        Any, Field(description="sha256:<hex> of the source"), counts("must be there; a read compares it")
    ] = None
    derived_from: Annotated[
        list[Id] | None,
        Field(fail_fast=True, max_length=MAX_PARENTS, description="memory ids"),
        tightens(
            "trust is at most that of the least trusted parent; an unknown parent caps it below the threshold"
        ),
    ] = None


class Dimensions(Record):
    """The four dimensions of the trust score (seed 003, "Trust Scorer"), each 0 to 1."""

    source_reliability: Annotated[Share, Field(alias="sourceReliability")]
    content_consistency: Annotated[Share, Field(alias="contentConsistency")]
    temporal_coherence: Annotated[Share, Field(alias="temporalCoherence")]
    instruction_alignment: Annotated[Share, Field(alias="instructionAlignment")]


class Cap(Record):
    """What the total may at most be, and why."""

    value: Share
    by: Annotated[str, Field(min_length=1)]


class TrustScore(Record):
    """`total` is what routes: the weighted dimensions under every cap; -1 where the gate is switched off."""

    total: Annotated[float, Field(ge=-1, le=1)]
    uncapped: Annotated[float, Field(ge=-1, le=1)]
    dimensions: Dimensions | None = None
    caps: list[Cap]


class MemoryFinding(Record):
    """One thing found in the content, or in what is released beside it. A framed one (quoted, reported,
    taught) is listed and costs nothing. `start` and `end` count in the form's text, of the field's words."""

    id: Id
    kind: Id
    weight: FindingWeight
    form: Annotated[str, Field(min_length=1, description="the disguises taken off to find it")]
    reason: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1, description="whose knowledge the pattern is")]
    framed: bool
    start: Whole
    end: Whole
    field: Annotated[
        str | None,
        Field(
            min_length=1,
            description="where it was found, if not in the content or body; the place is then in its words",
        ),
    ] = None


class QualityFault(Record):
    """A quality field that is missing or malformed (seed 004)."""

    field: Id
    problem: Annotated[str, Field(min_length=1)]


class KnownWrite(Record):
    """What the session remembered under the write's id."""

    digest: Digest
    offset: Whole
    action: MemoryAction
    shadow: MemoryAction | None = None


class SourceSeen(Record):
    """What was known of the source: its history at `revision` (0: none), and what the session saw of it."""

    type: Annotated[SourceType | None, Field(description="fixed when first seen")] = None
    positive: Whole
    negative: Whole
    revision: Whole
    session_type: SourceType | None = None
    last_at: Annotated[Whole | None, Field(description="the session's last write from it, ms")] = None


class ParentSeen(Record):
    """A memory that this one derives from; null trust: it is not known."""

    memory_id: Id
    trust: Annotated[float | None, Field(ge=-1, le=1)] = None


class WriteView(Record):
    """All that the decision took from state: the session's memory of the write's id and room for one more,
    the source, the parents."""

    known: KnownWrite | None = None
    room: bool
    source: SourceSeen
    parents: list[ParentSeen]


class MemoryDecision(LedgerRecord):
    """One decision on one proposed memory write; its id is the input's topic, partition and offset."""

    schema_name: Annotated[Literal["sluice/memory_decision/v1"], Field(alias="schema")]
    memory_id: Id
    write_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None
    tenant_id: Id | None = None
    trace_id: Annotated[Id | None, Field(alias="traceId")] = None
    request_id: Id | None = None
    action: MemoryAction
    shadow_action: Annotated[MemoryAction | None, Field(alias="shadowAction")] = None
    enforcement: Enforcement
    reason: Annotated[str, Field(min_length=1, description="a code, and behind a colon what it names")]
    trust_score: Annotated[TrustScore | None, Field(alias="trustScore", description="null: not reached")] = (
        None
    )
    findings: list[MemoryFinding]
    quality_faults: list[QualityFault]
    similarity: Annotated[
        dict[str, Any],
        Field(description="status, and the bare cosines; sealed: `said`"),
    ]
    analysis: Annotated[
        dict[str, Any],
        Field(description="status, and what the model said; sealed: `said`"),
    ]
    review_after_ms: Annotated[Whole | None, Field(alias="reviewAfterMs")] = None
    expires_at: Moment | None = None
    duplicate_of: Annotated[Id | None, Field(description="memory_id of the first sight")] = None
    content_digest: Annotated[Digest | None, Field(description="SHA-256 over the content's UTF-8")] = None
    content_characters: Annotated[Whole | None, Field(description="of sealed content its token's")] = None
    policy_bundle_id: Id | None = None
    bundle_hash: Digest
    registry_hashes: Annotated[dict[str, Digest], Field(description="kind/id@revision to hash")]
    seen: WriteView
    signature: VerifiedSignature | None = None
    model_outputs: Objects
    rerun_hash: Annotated[Digest, Field(description="over all decision inputs and the decision")]


class AdmittedMemory(Record):
    """The content of an allowed or approved memory, released once, for the store that keeps it."""

    schema_name: Annotated[Literal["sluice/admitted_memory/v1"], Field(alias="schema")]
    memory_id: Id
    write_id: Id
    agent_id: Id
    session_id: Id
    tenant_id: Id
    how: Literal["allowed", "approved"]
    approver_id: Id | None = None
    content: str
    content_digest: Digest
    source: MemorySource
    content_class: Any = None
    timestamp: Any = None
    confidence_score: Any = None
    provenance_uri: Any = None
    provenance_hash: Any = None
    derived_from: list[Id] | None = None
    trust: Annotated[float, Field(ge=-1, le=1)]
    decided_at: Moment
    input: InputCoordinates
