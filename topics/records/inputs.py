"""The records that agents, enforcement points and reviewers publish (seeds 000 and 001)."""

from typing import Annotated, Any, Literal

from pydantic import Field

from topics.records.base import Count, Digest, Id, Mode, Record

ActionType = Literal[
    "DATABASE_READ",
    "DATABASE_WRITE",
    "FILE_READ",
    "FILE_WRITE",
    "FILE_DELETE",
    "API_CALL",
    "CODE_EXECUTION",
    "MESSAGE",
    "PAYMENT",
    "DELEGATION",
    "OTHER",
]
Flags = Annotated[list[Id], Field(fail_fast=True, max_length=1000)]


class GovernanceContext(Record):
    """Who delegated what to whom, as the caller tells it (seed 001, Gate 2B)."""

    root_agent_id: Annotated[Id | None, Field(alias="rootAgentId")] = None
    original_intent_hash: Annotated[Id | None, Field(alias="originalIntentHash")] = None
    chain_depth: Annotated[Count | None, Field(alias="chainDepth")] = None
    parent_agent_id: Annotated[Id | None, Field(alias="parentAgentId")] = None
    parent_trace_id: Annotated[Id | None, Field(alias="parentTraceId")] = None


class ProposedAction(Record):
    """An action that an agent wants to carry out; key of the message: session_id."""

    action_id: Id
    agent_id: Id
    session_id: Id
    tool_name: Annotated[Id, Field(alias="toolName")]
    parameters: dict[str, Any]
    trace_id: Annotated[Id | None, Field(alias="traceId")] = None
    request_id: Id | None = None
    policy_bundle_id: Annotated[Id | None, Field(description="default: the agent's registered one")] = None
    mode: Annotated[Mode | None, Field(description="absent counts as high_stakes, with an advisory")] = None
    deadline_ms: Annotated[Count | None, Field(description="how long the caller waits, ms")] = None
    tool_description: str | None = None
    action_type: Annotated[ActionType | None, Field(description="absent: classified from the tool")] = None
    reversible: bool | None = None
    rows_affected: Annotated[Count | None, Field(description="the caller's estimate")] = None
    reasoning: str | None = None
    delegate_to: Id | None = None
    acknowledged_flags: Flags | None = None
    governance_context: Annotated[GovernanceContext | None, Field(alias="governanceContext")] = None
    aggregate_rows_affected: Annotated[
        Count | None, Field(alias="aggregateRowsAffected", description="compared with ours, never trusted")
    ] = None
    aggregate_action_count: Annotated[
        Count | None, Field(alias="aggregateActionCount", description="compared with ours, never trusted")
    ] = None


class SeedAction(Record):
    """Seed 000's `proposed_action`, accepted in place of `toolName` and `parameters`."""

    action: Id
    value: dict[str, Any]


class ActionOutcome(Record):
    """What an executed action really did; key of the message: session_id."""

    action_id: Id
    session_id: Id
    rows_affected: Count
    reported_by: Id
    error: str | None = None
    signature: Annotated[str | None, Field(min_length=1, max_length=8192)] = None


class ReviewDecision(Record):
    """A reviewer's answer to an escalation or a quarantined memory; key of the message: session_id."""

    subject_id: Id
    session_id: Id
    decision: Literal["approve", "deny", "reject"]
    approver_id: Id
    digest: Annotated[Digest, Field(description="of exactly what was reviewed")]
    justification: Annotated[str, Field(min_length=1, max_length=10_000)]
    signature: Annotated[str, Field(min_length=1, max_length=8192)]
