"""Retrievals: what was decided on each item, what the agent may see, and of what an operator is alarmed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sluice_topics.records.base import (
    Count,
    Digest,
    Enforcement,
    Id,
    InputCoordinates,
    LedgerCount,
    LedgerRecord,
    Moment,
    Objects,
    Record,
    Severity,
    VerifiedSignature,
)
from sluice_topics.records.memory import MemoryFinding, Whole  # noqa: TC001 - pydantic reads the annotations


class Alarm(LedgerRecord):
    """One alarm to a named recipient; an input of null: time alone raised it."""

    schema_name: Annotated[Literal["sluice/alarm/v1"], Field(alias="schema")]
    alarm_id: Id
    kind: Annotated[Literal["flag_only_overdue"], Field(description="flag-only outlived its window")]
    severity: Severity
    recipient: Annotated[str, Field(min_length=1)]
    subject: Annotated[Id, Field(description="the content class")]
    message: Annotated[str, Field(min_length=1)]
    since: Annotated[Moment, Field(description="when flag-only began")]
    overdue_since: Moment
    quality_bundle_id: Id
    quality_bundle_hash: Digest
    raised_at: Moment


class OutcomeAlarm(LedgerRecord):
    """An outcome that is not signed claims more rows than it may count: the session escalates until a signed
    one settles the action."""

    schema_name: Annotated[Literal["sluice/outcome_alarm/v1"], Field(alias="schema")]
    alarm_id: Id
    kind: Literal["outcome_disputed"]
    severity: Severity
    recipient: Annotated[str, Field(min_length=1)]
    subject: Annotated[Id, Field(description="the action_id")]
    message: Annotated[str, Field(min_length=1)]
    session_id: Id
    tenant_id: Id
    claimed: LedgerCount
    counted: Annotated[LedgerCount, Field(description="what the total holds for the action")]
    reported_by: Id
    raised_at: Moment


AutonomyTier = Literal["sandbox", "bounded", "high_privilege"]
QualityOutcome = Literal["pass", "flag", "downgrade", "deny"]
"""Seed 004's four outcomes, the mildest first."""
Dimension = Literal["freshness", "confidence", "provenance"]
QualityFlag = Literal[
    "stale", "low_confidence", "provenance_missing", "provenance_unverified", "content_suspect"
]
ReasonCode = Literal[
    "FRESHNESS_TTL_EXCEEDED",
    "CONFIDENCE_BELOW_MINIMUM",
    "PROVENANCE_FAILED",
    "CONTENT_UNSAFE",
    "ACCESS_DENIED",
    "KNOWN_BAD",
    "FROZEN",
    "UNKNOWN_AGENT",
    "UNSIGNED_AGENT",
    "NO_QUALITY_BUNDLE",
    "INTERNAL_ERROR",
]
StageName = Literal["controls", "access", "poisoning", "quality", "content"]


class RetrievalStage(Record):
    """One stage that ran; one that was not reached is absent."""

    stage: StageName
    outcome: QualityOutcome
    reason: str | None = None


class DimensionResult(Record):
    """What a dimension came to. `outcome` is the matrix's for a dimension that failed, else pass."""

    dimension: Dimension
    passed: bool
    outcome: QualityOutcome
    detail: Annotated[str, Field(min_length=1, description="what was compared, or what is wrong")]


class ProvenanceSeen(Record):
    """The recorded resolution that the decision relied on."""

    status: Literal["resolved", "unresolvable"]
    resolver: Annotated[str, Field(min_length=1)]
    hash: Digest | None = None
    seen_at: Annotated[Whole, Field(description="when it was resolved, ms since 1970")]
    detail: str


class QualityOverride(Record):
    """A person's signed word that an item may be read all the same, until it expires."""

    override_id: Id
    approver_id: Id
    expires_at: Moment
    justification: Annotated[str, Field(min_length=10)]


class QualityDecision(LedgerRecord):
    """One decision on one item of one retrieval (seed 004, "Evidence"), under the seed's own names."""

    schema_name: Annotated[Literal["sluice/quality_decision/v1"], Field(alias="schema")]
    schema_version: Literal["1"]
    ledger_event_id: Id
    timestamp: Annotated[Moment, Field(description="broker's time of the request: the same as decided_at")]
    request_id: Id | None = None
    request_hash: Annotated[Digest, Field(description="SHA-256 over the raw bytes of the request")]
    place: Annotated[Count, Field(description="the item's, in its request, from 0")]
    item_id: Id | None = None
    content_class: str | None = None
    freshness_age_seconds: float | None = None
    confidence_score: float | None = None
    provenance_uri: str | None = None
    provenance_hash_verified: bool
    quality_bundle_id: Id | None = None
    quality_bundle_hash: Digest | None = None
    outcome: QualityOutcome
    flags_set: list[QualityFlag]
    reason_codes: list[ReasonCode]
    reason: Annotated[str | None, Field(description="of what decided, in words; null for a pass")] = None
    trace_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None
    tenant_id: Id | None = None
    environment: Annotated[str, Field(min_length=1)]
    autonomy_tier: AutonomyTier
    tool_name: Annotated[Id | None, Field(alias="toolName")] = None
    tool_category: Id | None = None
    enforcement: Enforcement
    rollout: Annotated[
        Literal["flag_only", "enforce"] | None, Field(description="of the class; null: no bundle")
    ] = None
    would_have_been: Annotated[
        QualityOutcome | None, Field(description="what flag-only or shadow mode hides; null: nothing hides")
    ] = None
    stages: list[RetrievalStage]
    dimensions: list[DimensionResult]
    findings: list[MemoryFinding]
    override: QualityOverride | None = None
    escalation_id: Id | None = None
    body_digest: Annotated[
        Digest | None, Field(description="of the text, or of JSON in its RFC 8785 form")
    ] = None
    body_released: bool
    policy_bundle_id: Id | None = None
    bundle_hash: Annotated[Digest, Field(description="of the policy bundle, whose detectors read the body")]
    registry_hashes: Annotated[dict[str, Digest], Field(description="kind/id@revision to hash")]
    seen: ProvenanceSeen | None = None
    signature: VerifiedSignature | None = None
    model_outputs: Annotated[
        Objects | None, Field(description="what a model was asked of the body and answered; absent without")
    ] = None
    rerun_hash: Annotated[Digest, Field(description="over all decision inputs and the decision")]


class ItemFlags(Record):
    """The flags as fields, so that nobody has to find them in a text (seed 004, "Failure modes")."""

    stale: bool
    low_confidence: bool
    provenance_missing: bool
    provenance_unverified: bool
    content_suspect: bool


class ServedItem(Record):
    """An item as the agent may see it; the body is null where it was downgraded."""

    item_id: Id
    ledger_event_id: Id
    outcome: Literal["pass", "flag", "downgrade"]
    flags: ItemFlags
    content_class: str | None = None
    freshness_age_seconds: float | None = None
    confidence_score: float | None = None
    provenance_uri: str | None = None
    body: Any = None
    unjudged: Annotated[
        str | None, Field(description="why a model that was to judge the body did not; absent without")
    ] = None


class WithheldItem(Record):
    """An item that was denied: that it exists and why it is not here."""

    item_id: Id
    ledger_event_id: Id
    reason_codes: list[ReasonCode]
    escalation_id: Id | None = None


class ServedRetrieval(Record):
    """What an agent may see of a request's items, in the request's order."""

    schema_name: Annotated[Literal["sluice/served_retrieval/v1"], Field(alias="schema")]
    served_id: Id
    request_id: Id
    agent_id: Id
    session_id: Id
    tenant_id: Id | None = None
    trace_id: Id | None = None
    items: list[ServedItem]
    withheld: list[WithheldItem]
    decided_at: Moment
    input: InputCoordinates


class RetrievalReported(LedgerRecord):
    """A store's report held against the decisions its session remembers (seed 004, "Coverage metric")."""

    schema_name: Annotated[Literal["sluice/retrieval_reported/v1"], Field(alias="schema")]
    report_event_id: Id
    report_id: Id
    request_id: Id
    agent_id: Id
    session_id: Id
    tenant_id: Id | None = None
    autonomy_tier: AutonomyTier
    reported_by: Id
    reported: Annotated[Count, Field(description="items that the store returned")]
    covered: Annotated[Count, Field(description="those of them with a decision")]
    uncovered: Annotated[list[Id], Field(description="the first of those without, at most 100")]


class RetrievalEscalationOpened(LedgerRecord):
    """Denied items wait for a person, who approves the request or signs an override (seed 004, "Interaction
    with HITL"): only at high_privilege, for a high-impact tool category."""

    schema_name: Annotated[Literal["sluice/retrieval_escalation_opened/v1"], Field(alias="schema")]
    escalation_id: Id
    request_id: Id
    request_hash: Digest
    agent_id: Id
    session_id: Id
    tenant_id: Id
    tool_category: Id
    items: Annotated[list[WithheldItem], Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]
    required_role: Literal["approver"]
    quorum: Annotated[int | None, Field(ge=2, description="approvals that it needs; null: one")] = None
    own_key: Annotated[
        bool | None, Field(description="true: no delegate may sign an answer; absent: one may")
    ] = None
    opened_at: Moment
    expires_at: Moment
