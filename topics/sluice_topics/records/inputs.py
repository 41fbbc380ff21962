"""The records that agents, enforcement points and reviewers publish (seeds 000 and 001).

And the records of the control topics: signed bundles and signed registry entries, each in a DSSE envelope.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sluice_topics.records.base import (
    BY_RULES,
    FOR_PEOPLE,
    Count,
    Digest,
    Id,
    InputCoordinates,
    Mode,
    Moment,
    Record,
    ReviewDelegate,
    counts,
    ignore,
    tightens,
)

BY_MODELS = (
    "rules that cite it read it, and the gates that ask a hosted model show it to the model as data, "
    "the agent's own account"
)
Base64 = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


class Signature(Record):
    """One signature over the envelope's pre-authentication encoding; `keyid` is a hint and not trusted."""

    keyid: Id
    sig: Annotated[Base64, Field(min_length=1, max_length=1024)]


class DsseEnvelope(Record):
    """A DSSE 1.0 envelope; `payloadType` says whether a bundle or a registry entry is inside."""

    payload: Base64
    payload_type: Annotated[Id, Field(alias="payloadType")]
    signatures: Annotated[list[Signature], Field(min_length=1, max_length=16)]


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


_ANCESTOR = counts(
    "a named ancestor adds one delegation to the depth and cannot be the delegate again; without one, "
    "chainDepth gives the depth"
)
_TOTAL = ignore("compared with the session's own total, which counts; a difference is an advisory")
_SESSION = counts("it must be the message's key; totals are kept for it and the agent's tenant")


_GRANT = counts("of an agent that signs: every field must hold for this action, under the parent's signature")


class DelegationGrant(Record):
    """A signing agent's leave for another to work on its behalf (docs/clients.md)."""

    parent_agent_id: Annotated[Id, Field(description="who grants"), _GRANT]
    agent_id: Annotated[Id, Field(description="to whom"), _GRANT]
    session_id: Annotated[Id, Field(description="in which session"), _GRANT]
    max_depth: Annotated[
        int, Field(ge=0, le=64, description="delegations that may follow after this one"), _GRANT
    ]
    tools: Annotated[
        list[Id] | None, Field(max_length=256, description="for which tools; null: for all"), _GRANT
    ] = None
    until: Annotated[Moment, Field(description="it counts before this broker time"), _GRANT]
    key_id: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="of the parent's key"), _GRANT]
    signature: Annotated[
        str,
        Field(max_length=128, description="Ed25519 over the RFC 8785 form of the grant without it, base64"),
        _GRANT,
    ]


class GovernanceContext(Record):
    """The chain of delegation, as the caller states it (seed 001, Gate 2B). Of an agent that signs it must
    follow from `grants`."""

    root_agent_id: Annotated[Id | None, Field(alias="rootAgentId"), _ANCESTOR] = None
    original_intent_hash: Annotated[Id | None, Field(alias="originalIntentHash"), counts(BY_RULES)] = None
    chain_depth: Annotated[
        Count | None,
        Field(alias="chainDepth"),
        counts("a depth above the bundle's max_chain_depth blocks; named ancestors are its minimum"),
    ] = None
    parent_agent_id: Annotated[
        Id | None,
        Field(alias="parentAgentId"),
        counts("both agents' registered lists must allow the link to a named parent; it is an ancestor"),
    ] = None
    parent_trace_id: Annotated[Id | None, Field(alias="parentTraceId"), counts(BY_RULES)] = None
    grants: Annotated[
        list[DelegationGrant] | None,
        Field(min_length=1, max_length=16, description="the root's first, the one to this agent last"),
        counts("of an agent that signs: they give depth, root and parent; one that does not hold denies"),
    ] = None


class ProposedAction(Record):
    """An action that an agent wants to carry out; key of the message: session_id."""

    action_id: Annotated[
        Id,
        counts(
            "repeated in its session's window: with the same bytes it gets the first answer and "
            "changes no total, with other bytes it is denied"
        ),
    ]
    agent_id: Annotated[Id, counts("names the registered agent; an unregistered agent is never allowed")]
    session_id: Annotated[Id, _SESSION]
    tool_name: Annotated[
        Id,
        Field(alias="toolName"),
        counts("names the registry's entry of exactly this name; a tool without an entry is never allowed"),
    ]
    parameters: Annotated[
        dict[str, Any], counts("the gates judge it: Gate 1 reads every key and value, rules may cite them")
    ]
    trace_id: Annotated[Id | None, Field(alias="traceId"), FOR_PEOPLE] = None
    request_id: Annotated[Id | None, FOR_PEOPLE] = None
    policy_bundle_id: Annotated[
        Id | None,
        Field(description="default: the agent's registered one"),
        tightens("the agent's own bundle always judges; an action that names another one is never allowed"),
    ] = None
    mode: Annotated[
        Mode | None,
        Field(description="absent counts as high_stakes, with an advisory"),
        counts(
            "standard makes the verdict advice (seed 000): something missing, over budget or late needs a "
            "person instead of being denied, and rows are reserved whatever the verdict"
        ),
    ] = None
    deadline_ms: Annotated[
        Count | None,
        Field(description="how long the caller waits, ms, from the broker's time of the record"),
        tightens(
            "an action decided after it is never allowed: it is denied, in standard mode it needs a person"
        ),
    ] = None
    tool_description: Annotated[str | None, counts(BY_MODELS)] = None
    action_type: Annotated[
        ActionType | None,
        Field(description="read in addition to the registered type, else to that of the tool's name"),
        tightens(
            "the registered type, else that of the tool's name, still counts; the claimed type adds "
            "its tier, risk, reversibility, row bound and way of reading where they are stricter"
        ),
    ] = None
    reversible: Annotated[
        bool | None,
        tightens("false makes the action irreversible, whatever the registry says; true does nothing"),
    ] = None
    rows_affected: Annotated[
        Count | None,
        Field(description="the caller's estimate"),
        tightens(
            "below the action type's rows_upper_bound it counts only if the tool's entry trusts it "
            "(trusts_row_claims); even then 0 does not count for a call that reads as a delete or a write"
        ),
    ] = None
    reasoning: Annotated[str | None, counts(BY_MODELS)] = None
    delegate_to: Annotated[
        Id | None,
        counts("passes only if both agents' registered lists allow it and it widens no authority"),
    ] = None
    acknowledged_flags: Annotated[
        Flags | None,
        counts("acknowledges flags of items that this session was served; only rules read them"),
    ] = None
    governance_context: Annotated[
        GovernanceContext | None, Field(alias="governanceContext"), counts("field by field, as below")
    ] = None
    mandate_digest: Annotated[
        Digest | None,
        Field(description="of the mandate under which the agent acts (docs/mandates.md)"),
        counts(
            "names a mandate that an issuer signed for this agent and session, where the bundle asks for "
            "one; outside it, or where it is not there, the action is held or denied"
        ),
    ] = None
    aggregate_rows_affected: Annotated[
        Count | None,
        Field(alias="aggregateRowsAffected", description="compared with ours, never trusted"),
        _TOTAL,
    ] = None
    aggregate_action_count: Annotated[
        Count | None,
        Field(alias="aggregateActionCount", description="compared with ours, never trusted"),
        _TOTAL,
    ] = None


class SeedAction(Record):
    """Seed 000's `proposed_action`, accepted in place of `toolName` and `parameters`."""

    action: Annotated[Id, counts("the same as toolName")]
    value: Annotated[dict[str, Any], counts("the same as parameters")]


_VALUES = counts(
    "only under a registered enforcement point's signature may a value count as trusted, and only where the "
    "registry trusts the tool's results; else it can add untrusted ones alone"
)


class OutcomeValues(Record):
    """What the tool returned, as salted fingerprints; never the content (sluice_topics/values.py)."""

    fingerprints: Annotated[
        list[Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{21}[AQgw]==$")]],
        Field(max_length=512, fail_fast=True, description="of distinct values, 16 bytes each, base64"),
        _VALUES,
    ]
    truncated: Annotated[
        bool,
        Field(description="whether the result may hold other values"),
        counts(
            "with true, a value that is not among them counts as unknown; false is as good as the signature"
        ),
    ]


class ActionOutcome(Record):
    """What an executed action really did; key of the message: session_id.

    A signature settles the one action that `action_digest` and `input` name, once; it needs both.
    """

    action_id: Annotated[Id, counts("settles what this session reserved under the id, and nothing else")]
    session_id: Annotated[Id, _SESSION]
    rows_affected: Annotated[
        Count,
        counts(
            "may raise a total, unsigned up to the bundle's unsigned_factor of the reservation; "
            "lowers one only under a registered enforcement point's signature"
        ),
    ]
    reported_by: Annotated[Id, counts("names the enforcement point whose key the signature must fit")]
    error: Annotated[str | None, FOR_PEOPLE] = None
    action_digest: Annotated[
        Digest | None,
        Field(description="of the action's raw bytes: `digest` in the verdict's `input`"),
        counts("a signature counts for the one action that it names, once"),
    ] = None
    input: Annotated[
        InputCoordinates | None,
        Field(description="of the action: the verdict's `input` as it stands"),
        counts("a signature counts for the one action that it names, once"),
    ] = None
    signature: Annotated[
        str | None,
        Field(min_length=1, max_length=8192),
        counts("must be of the enforcement point that reported_by names; otherwise it does not count"),
    ] = None
    values: Annotated[
        OutcomeValues | None,
        Field(description="the values in what the tool returned; absent: nobody read it"),
        _VALUES,
    ] = None


_SIGNED = counts("with the signature of a registered approver with the right role; otherwise refused")


class GrantRequest(Record):
    """With an approval: the agent may use the tool so many times more in the session without asking again.

    `when`: CEL over the action, as in docs/rules.md; the grant holds for actions of which it is true.
    """

    uses: Annotated[int, Field(ge=1, le=1000), _SIGNED]
    until: Annotated[Moment, _SIGNED]
    when: Annotated[str | None, Field(min_length=1, max_length=4096), _SIGNED] = None


class ReviewDecision(Record):
    """A reviewer's answer to an escalation or a quarantined memory; key of the message: session_id."""

    subject_id: Annotated[Id, _SIGNED]
    session_id: Annotated[Id, _SESSION]
    decision: Annotated[Literal["approve", "deny", "reject"], _SIGNED]
    approver_id: Annotated[Id, counts("names the registered approver whose key the signature must fit")]
    digest: Annotated[
        Digest,
        Field(description="of exactly what was reviewed"),
        counts("must be the digest of what waits for the review; otherwise refused"),
    ]
    parameters: Annotated[
        dict[str, Any] | None,
        Field(description="with an approval of an action: narrower ones, which it may be done with instead"),
        counts("the action is judged again with them; every gate may still deny it"),
    ] = None
    justification: Annotated[str, Field(min_length=1, max_length=10_000), _SIGNED]
    delegate: Annotated[
        ReviewDelegate | None,
        Field(description="the delegate that signed for the approver; absent where the approver's key did"),
        counts("within the delegate's registered tenants and roles, and not where the own key is demanded"),
    ] = None
    grant: Annotated[
        GrantRequest | None,
        Field(description="with an approval of an action: what the agent may do without asking again"),
        counts("bounded by the approver's own authority, and never for the highest tier"),
    ] = None
    remember_days: Annotated[
        int | None,
        Field(ge=1, le=30, description="with an approval of an action: where it goes is known for so long"),
        counts("for this agent and tool, once it was carried out; never for the highest tier"),
    ] = None
    signature: Annotated[
        str,
        Field(min_length=1, max_length=8192),
        counts("must be of the approver that approver_id names, or of the delegate's key; else refused"),
    ]
