"""Escalated actions: a verdict opens an escalation, which takes its route; answers or time end it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from sluice_topics.records.base import (
    BY_DELEGATE,
    DelegateSeen,
    Digest,
    Id,
    LedgerRecord,
    Moment,
    Outcome,
    Record,
    Role,
    Tier,
)


class _Escalation(LedgerRecord):
    escalation_id: Id
    verdict_id: Annotated[Id, Field(description="the verdict that opened it")]
    action_id: Id
    agent_id: Id
    session_id: Id
    tenant_id: Id
    action_digest: Annotated[Digest, Field(description="an approval counts for exactly this action")]
    expires_at: Moment


class EscalatedValue(Record):
    """A value of the action that was looked up and did not simply pass."""

    path: Annotated[str, Field(description="of its parameter; $: values beyond those that are looked up")]
    role: str
    kind: str
    origin: Annotated[str, Field(description="where it comes from (docs/destinations.md)")]
    source: Annotated[str | None, Field(description="the tool, item or memory that brought it in")] = None
    seen_before_ms: Annotated[int | None, Field(ge=0, description="how long before the action, ms")] = None
    used_by: Annotated[Id | None, Field(description="the agent that used it before")] = None


PARAMETERS = "of the action's parameters as proposed, RFC 8785"


class EscalationOpened(_Escalation):
    """An action waits for a person with the required role, of a group where the bundle has a route for it."""

    schema_name: Annotated[Literal["sluice/escalation_opened/v1"], Field(alias="schema")]
    reason: Annotated[str, Field(min_length=1)]
    tier: Tier
    required_role: Role
    quorum: Annotated[int | None, Field(ge=2, description="approvals that it needs; null: one")] = None
    own_key: Annotated[
        bool | None, Field(description="true: no delegate may sign an answer; absent: one may")
    ] = None
    group: Annotated[Id | None, Field(description="may answer now; null: every approver may")] = None
    remind_at: Annotated[Moment | None, Field(description="when the group is reminded")] = None
    next_group: Annotated[Id | None, Field(description="gets it next, and may answer then too")] = None
    next_at: Annotated[Moment | None, Field(description="when the next group gets it")] = None
    parameters_digest: Annotated[Digest, Field(description=PARAMETERS)]
    values: Annotated[
        list[EscalatedValue] | None, Field(description="looked-up values to mind; absent: none")
    ] = None
    opened_at: Moment


class EscalationReminded(_Escalation):
    """The group whose turn it is has not ended it by the route's time; it is asked again."""

    schema_name: Annotated[Literal["sluice/escalation_reminded/v1"], Field(alias="schema")]
    reminder_id: Id
    group: Id
    approvals: Annotated[int, Field(ge=0, description="counted until then")]
    due_at: Annotated[Moment, Field(description="by the route; a stopped worker writes the record later")]


class EscalationRerouted(_Escalation):
    """It went on to the next group of its route. The groups before may still answer."""

    schema_name: Annotated[Literal["sluice/escalation_rerouted/v1"], Field(alias="schema")]
    reroute_id: Id
    from_group: Id
    group: Annotated[Id, Field(description="may answer from `due_at` on")]
    remind_at: Annotated[Moment | None, Field(description="when the group is reminded")]
    next_group: Annotated[Id | None, Field(description="gets it next; null: this is the last one")]
    next_at: Annotated[Moment | None, Field(description="when the next group gets it")]
    approvals: Annotated[int, Field(ge=0, description="counted until then")]
    due_at: Annotated[Moment, Field(description="by the route; a stopped worker writes the record later")]


class _Answered(_Escalation):
    approver_id: Id
    approver_entry: Annotated[str, Field(description="kind/id@revision")]
    approver_hash: Digest
    justification: Annotated[str, Field(min_length=1)]
    delegate: Annotated[DelegateSeen | None, BY_DELEGATE] = None


DROPPED = Field(description="approvers whose approvals count no more; absent: none")
DroppedBecause = Literal["other_parameters", "not_entitled"]
"""This approval is for other parameters, so the count started again; or who gave them may not now."""


class ApprovalCounted(_Answered):
    """An approval of several that the escalation needs; it stays open.

    `tier`, `required_role` and `own_key` are there where the policy has come to demand more while it waited.
    """

    schema_name: Annotated[Literal["sluice/approval_counted/v1"], Field(alias="schema")]
    approval_id: Id
    approvals: Annotated[int, Field(ge=1, description="counted so far")]
    quorum: Annotated[int, Field(ge=2)]
    approved_parameters: Annotated[
        Digest, Field(description="of the parameters that all counted approvals are for, RFC 8785")
    ]
    dropped: Annotated[list[Id] | None, DROPPED] = None
    dropped_because: DroppedBecause | None = None
    tier: Annotated[Tier | None, Field(description="of the action now")] = None
    required_role: Annotated[Role | None, Field(description="that approvals need from now on")] = None
    own_key: Annotated[bool | None, Field(description="true: no delegate may sign an answer now")] = None


class EscalationResolved(_Answered):
    """An approver's answer ended it. A denial is final; what an approved action came to, the resolved verdict
    says in full."""

    schema_name: Annotated[Literal["sluice/escalation_resolved/v1"], Field(alias="schema")]
    decision: Literal["approve", "deny"]
    outcome: Annotated[Outcome, Field(description="what the agent may do now")]
    block_reason: Annotated[str | None, Field(alias="blockReason")] = None
    resolved_verdict_id: Annotated[Id | None, Field(description="null for a denial")] = None
    known_until: Annotated[
        Moment | None,
        Field(
            description="the agent's destinations of this tool are known until then, once it was carried out"
        ),
    ] = None
    resolved_at: Moment


class EscalationExpired(_Escalation):
    """Nobody decided in time, or it had to make room, which counts as denied."""

    schema_name: Annotated[Literal["sluice/escalation_expired/v1"], Field(alias="schema")]
    reason: Annotated[str, Field(min_length=1)]
    approvals: Annotated[int, Field(ge=0, description="counted until then")]
    expired_at: Moment


class _RetrievalEscalation(LedgerRecord):
    escalation_id: Id
    request_id: Id
    request_hash: Annotated[Digest, Field(description="an approval counts for exactly this request")]
    agent_id: Id
    session_id: Id
    tenant_id: Id
    expires_at: Moment


class _RetrievalAnswered(_RetrievalEscalation):
    approver_id: Id
    approver_entry: Annotated[str, Field(description="kind/id@revision")]
    approver_hash: Digest
    justification: Annotated[str, Field(min_length=1)]
    delegate: Annotated[DelegateSeen | None, BY_DELEGATE] = None


class RetrievalApprovalCounted(_RetrievalAnswered):
    """An approval of several that a retrieval's escalation needs; it stays open."""

    schema_name: Annotated[Literal["sluice/retrieval_approval_counted/v1"], Field(alias="schema")]
    approval_id: Id
    approvals: Annotated[int, Field(ge=1, description="counted so far")]
    quorum: Annotated[int, Field(ge=2)]
    dropped: Annotated[list[Id] | None, DROPPED] = None
    dropped_because: DroppedBecause | None = None
    own_key: Annotated[bool | None, Field(description="true: no delegate may sign an answer now")] = None


class RetrievalEscalationResolved(_RetrievalAnswered):
    """An approver's answer ended it. After an approval the agent may send exactly this request once more, and
    what the quality gate denied is then served with its flags."""

    schema_name: Annotated[Literal["sluice/retrieval_escalation_resolved/v1"], Field(alias="schema")]
    decision: Literal["approve", "deny"]
    usable_until: Annotated[Moment | None, Field(description="null for a denial")] = None
    resolved_at: Moment


class RetrievalEscalationExpired(_RetrievalEscalation):
    """Nobody decided in time, or it had to make room, which counts as denied."""

    schema_name: Annotated[Literal["sluice/retrieval_escalation_expired/v1"], Field(alias="schema")]
    reason: Annotated[str, Field(min_length=1)]
    approvals: Annotated[int, Field(ge=0, description="counted until then")]
    expired_at: Moment


class _Grant(LedgerRecord):
    grant_id: Id
    agent_id: Id
    session_id: Id
    tenant_id: Id
    tool: Id
    grant_digest: Annotated[Digest, Field(description="of what was granted; a revocation names it")]


class GrantGiven(_Grant):
    """With an approval an approver let the agent use the tool without asking again, within these bounds."""

    schema_name: Annotated[Literal["sluice/grant_given/v1"], Field(alias="schema")]
    escalation_id: Id
    when: Annotated[str | None, Field(description="CEL over the action; null: every action")]
    uses: Annotated[int, Field(ge=1)]
    until: Moment
    approver_id: Id
    approver_entry: Annotated[str, Field(description="kind/id@revision")]
    approver_hash: Digest
    justification: Annotated[str, Field(min_length=1)]


class GrantUsed(_Grant):
    """An action was allowed by a standing grant."""

    schema_name: Annotated[Literal["sluice/grant_used/v1"], Field(alias="schema")]
    use_id: Id
    verdict_id: Id
    action_id: Id
    uses_left: Annotated[int, Field(ge=0)]


class GrantRevoked(_Grant):
    """An approver ended a standing grant; nothing is allowed by it any more."""

    schema_name: Annotated[Literal["sluice/grant_revoked/v1"], Field(alias="schema")]
    uses_left: Annotated[int, Field(ge=1)]
    approver_id: Id
    approver_entry: Annotated[str, Field(description="kind/id@revision")]
    approver_hash: Digest
    justification: Annotated[str, Field(min_length=1)]
    delegate: Annotated[DelegateSeen | None, BY_DELEGATE] = None


class PostedMessage(Record):
    """A message of a chat, as the chat names it; an update of it needs both."""

    channel: Id
    ts: Annotated[Id, Field(description="the chat's name of the message: Slack's ts")]


class NotifiedSubject(Record):
    """What a notifier has told of an escalation or a held memory, and where; the newest record under its key
    counts.

    A notifier that starts goes on from it: it updates the messages, and posts none of them again.
    """

    schema_name: Annotated[Literal["sluice/notified_subject/v1"], Field(alias="schema")]
    subject_id: Id
    told: Annotated[dict[str, Any], Field(description="as it was told; long texts are cut")]
    offset: Annotated[int, Field(ge=-1, description="of the last record that all messages tell; -1: none")]
    messages: list[PostedMessage]


OF_ACTIONS = (
    EscalationOpened,
    EscalationReminded,
    EscalationRerouted,
    ApprovalCounted,
    EscalationResolved,
    EscalationExpired,
)
OF_ITEMS = (RetrievalApprovalCounted, RetrievalEscalationResolved, RetrievalEscalationExpired)
OF_GRANTS = (GrantGiven, GrantUsed, GrantRevoked)
