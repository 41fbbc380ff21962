"""An escalation's life: opened by a verdict, ended by a reviewer or by time."""

from typing import Annotated, Literal

from pydantic import Field

from topics.records.base import Digest, Id, LedgerRecord, Moment, Role, Tier


class _Escalation(LedgerRecord):
    escalation_id: Id
    verdict_id: Annotated[Id, Field(description="the verdict that opened it")]
    action_id: Id
    agent_id: Id
    session_id: Id
    tenant_id: Id
    action_digest: Annotated[Digest, Field(description="an approval counts for exactly this action")]
    expires_at: Moment


class EscalationOpened(_Escalation):
    """An action waits for a person with the required role."""

    schema_name: Annotated[Literal["sluice/escalation_opened/v1"], Field(alias="schema")]
    reason: Annotated[str, Field(min_length=1)]
    tier: Tier
    required_role: Role
    opened_at: Moment


class EscalationResolved(_Escalation):
    """A reviewer decided; the resolved verdict is a new ledger record. No worker writes this record yet."""

    schema_name: Annotated[Literal["sluice/escalation_resolved/v1"], Field(alias="schema")]
    decision: Literal["approve", "deny"]
    approver_id: Id
    justification: Annotated[str, Field(min_length=1)]
    resolved_verdict_id: Id
    resolved_at: Moment


class EscalationExpired(_Escalation):
    """Nobody decided in time, which counts as denied. No worker writes this record yet."""

    schema_name: Annotated[Literal["sluice/escalation_expired/v1"], Field(alias="schema")]
    expired_at: Moment
