"""The verdict, with all that the decision on an action rests on."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from sluice_topics.records.base import (
    BY_DELEGATE,
    MAX_SAFE_INTEGER,
    CheckpointState,
    DelegateSeen,
    Digest,
    Enforcement,
    Id,
    InputCoordinates,
    LedgerCount,
    LedgerRecord,
    Mode,
    Moment,
    Objects,
    Outcome,
    Record,
    Role,
    Severity,
    Texts,
    Tier,
    VerdictWord,
    VerifiedSignature,
)
from sluice_topics.records.mandates import MandateSeen

OUTCOME_OF: dict[VerdictWord, Outcome] = {"allowed": "ALLOW", "denied": "BLOCK", "needs_human": "ESCALATE"}
"""The seeds' two vocabularies, tied one to one (seed 000 speaks the first, seed 001 the second)."""


class GateResult(Record):
    """One gate that ran; a gate that was not reached is absent."""

    gate: Id
    passed: bool
    failure_reason: Annotated[str | None, Field(alias="failureReason")] = None
    duration_ms: Annotated[float, Field(alias="durationMs", ge=0)]
    detail: dict[str, Any]


class Checkpoints(Record):
    """Seed 002's four verdict checkpoints."""

    front: CheckpointState
    autonomy: CheckpointState
    integrity: CheckpointState
    back: CheckpointState


class Advisory(Record):
    """A remark for people, that changes no decision (seed 002, X-Mnemom-Advisory)."""

    source: Id
    text: str
    severity: Severity | None = None
    id: str | None = None


class Totals(Record):
    """A session's running totals for one tenant."""

    aggregate_rows_affected: Annotated[LedgerCount, Field(alias="aggregateRowsAffected")]
    aggregate_action_count: Annotated[LedgerCount, Field(alias="aggregateActionCount")]


class KnownAction(Record):
    """What the session remembered under the action's id: the first sight's digest, offset and outcome."""

    digest: Digest
    offset: Annotated[int, Field(ge=0)]
    mark: Annotated[str, Field(description="the outcome, and behind a slash the one that shadow mode hid")]


class RetrievalFlags(Record):
    """Flags, as "item:flag", of items that the session was let read: those that the action says it has seen,
    and the others."""

    acknowledged: Texts
    outstanding: Texts


class ReadSoFar(Record):
    """Untrusted content of one kind: how many times it came, when last (ms of broker time), and by what."""

    times: Annotated[int, Field(ge=1)]
    last_at: Annotated[int, Field(ge=0)]
    last: Annotated[Id, Field(description="an item, a write or a tool, a long id by its digest")]


class SeenValueOrigin(Record):
    """Where a value of the action was seen before: in a tool's result, an item or a memory (`source`), when,
    and whether that is the organisation's own word."""

    trusted: bool
    source: Id
    at_ms: Annotated[int, Field(ge=0, description="broker time, ms since 1970")]
    written: Annotated[
        bool | None,
        Field(description="a trusted result, which had it only after an agent of the session had used it"),
    ] = None


class DestinationUse(Record):
    """That a destination was used before: by the agent or a peer, in which role, its salted fingerprint, how
    often, on how many days, last when, and the count's revision."""

    agent: Id
    role: Literal["destination", "object"]
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    times: Annotated[int, Field(ge=0, description="0: only a person's answer makes it known")]
    days: Annotated[int, Field(ge=0)]
    last_ms: Annotated[int, Field(ge=0, description="ms since 1970")]
    revision: Annotated[int, Field(ge=1)]
    answered_ms: Annotated[int | None, Field(ge=1, description="when a person's answer made it known")] = None
    until_ms: Annotated[
        int | None, Field(ge=1, description="until when, ms since 1970; absent: none did")
    ] = None


class DestinationsSeen(Record):
    """What a session said of an action's destinations and objects: by the parameter's path those that it had
    seen. `complete`: all that came in is known, so that the others came from nowhere."""

    complete: bool
    untainted: Annotated[
        bool | None,
        Field(description="nothing came in but trusted results and what the agents said; absent: not so"),
    ] = None
    values: dict[str, SeenValueOrigin]
    uses: Annotated[
        dict[str, DestinationUse] | None,
        Field(description="by the parameter's path, of those that were used before; absent: none was"),
    ] = None


class LimitSeenByAction(Record):
    """What the action's partition had counted for a limit above the session before it, as it keeps it: rows,
    actions and values as they are, sums of a parameter in thousandths."""

    used: Annotated[int | None, Field(ge=0, description="null: there was no room to count")]
    share: Annotated[int, Field(ge=0, description="what the partition may allow of the limit")]
    new: Annotated[
        int | None,
        Field(ge=0, description="how many of the action's values were not counted; absent: none are"),
    ] = None


class SessionValues(Record):
    """All that the decision took from its session: its totals, what was known under the action's id, and
    whether one more action could be remembered, flags of what was read, the action whose outcome is disputed
    if there is one; and the totals that it left."""

    before: Totals
    after: Totals
    known: KnownAction | None = None
    room: bool
    flags: RetrievalFlags
    disputed: Annotated[Id | None, Field(description="an action_id, a long one by its digest")] = None
    remembered: Annotated[
        dict[str, Any] | None,
        Field(description="what gates remembered of the agent in the session, by the gate's name"),
    ] = None
    read: Annotated[
        dict[Literal["external", "flagged", "held"], ReadSoFar] | None,
        Field(description="untrusted content that came into the session before; absent: none did"),
    ] = None
    mandate: Annotated[
        MandateSeen | None,
        Field(description="the mandate that the action names; absent: the session has none of its digest"),
    ] = None
    mandates: Annotated[
        int | None,
        Field(ge=1, description="how many mandates the agent has, where the action names none; absent: none"),
    ] = None
    values: Annotated[
        DestinationsSeen | None,
        Field(
            description="what the session said of the action's destinations; absent: its tool has no roles"
        ),
    ] = None
    limits: Annotated[
        dict[str, LimitSeenByAction] | None,
        Field(description="by their ids the limits that may be about the action; absent: there are none"),
    ] = None


class GrantSeen(Record):
    """The standing grant by which an action was allowed, as it was before this use."""

    grant_id: Id
    when: str | None
    uses_left: Annotated[int, Field(ge=1)]
    until: Moment
    approver_id: Id
    entry: Annotated[str, Field(description="kind/id@revision of the approver's entry")]
    entry_hash: Digest
    grant_digest: Digest


class Verdict(LedgerRecord):
    """One decision on one proposed action; its id is the input's topic, partition and offset."""

    schema_name: Annotated[Literal["sluice/verdict/v1"], Field(alias="schema")]
    verdict_id: Id
    action_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None
    tenant_id: Id | None = None
    trace_id: Annotated[Id | None, Field(alias="traceId")] = None
    request_id: Id | None = None
    verdict: VerdictWord
    outcome: Outcome
    shadow_outcome: Annotated[Outcome | None, Field(alias="shadowOutcome")] = None
    mode: Mode
    enforcement: Enforcement
    waited_ms: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_SAFE_INTEGER,
            description="how long the action had waited when it was decided, ms; null where it "
            "names no deadline",
        ),
    ] = None
    signature: VerifiedSignature | None = None
    tier: Tier | None = None
    block_reason: Annotated[str | None, Field(alias="blockReason")] = None
    escalation_id: Annotated[Id | None, Field(alias="escalationId")] = None
    duplicate_of: Annotated[Id | None, Field(description="verdict_id of the first sight")] = None
    gate_results: Annotated[list[GateResult], Field(alias="gateResults")]
    rule_results: Objects
    evidence_refs: Texts
    rerun_hash: Annotated[Digest, Field(description="over all decision inputs and the decision")]
    policy_bundle_id: Id | None = None
    bundle_hash: Digest
    registry_hashes: Annotated[dict[str, Digest], Field(description="kind/id@revision to hash")]
    stages: Annotated[Texts, Field(description="the configured gates in their order")]
    checkpoints: Checkpoints
    advisories: list[Advisory]
    obligations: Texts
    session: SessionValues
    rows_reserved: LedgerCount
    model_outputs: Objects
    grant: Annotated[GrantSeen | None, Field(description="in place of an approval; absent without one")] = (
        None
    )

    @model_validator(mode="after")
    def _check_one_to_one(self) -> Self:
        if OUTCOME_OF[self.verdict] != self.outcome:
            raise ValueError(f"verdict {self.verdict} goes with outcome {OUTCOME_OF[self.verdict]}")
        return self


class CountedApproval(Record):
    """An approver's approval, by its id and registry entry, and the review that it came in,
    "topic:partition:offset"."""

    approver_id: Id
    entry: Annotated[str, Field(description="kind/id@revision")]
    entry_hash: Digest
    review: Id
    delegate: Annotated[DelegateSeen | None, BY_DELEGATE] = None


class RouteSeen(Record):
    """The groups that an escalation goes to in turn: each but the last has it for `next_after_ms` before the
    next one gets it too, and is reminded `remind_after_ms` after it got it; null: never."""

    groups: Annotated[list[Id], Field(min_length=1)]
    remind_after_ms: Annotated[int | None, Field(ge=1)]
    next_after_ms: Annotated[int | None, Field(ge=1)]


class EscalationSeen(Record):
    """What the partition knew of an escalation when an approval ended it; `votes`: approvals before it."""

    tool: Id
    tier: Tier
    required_role: Role
    quorum: Annotated[int, Field(ge=1)]
    opened_at: Moment
    expires_at: Moment
    votes: list[CountedApproval]
    counted: Annotated[
        bool, Field(description="the totals held the action already: it was carried out before")
    ]
    parameters_digest: Annotated[
        Digest, Field(description="of the action's parameters as proposed, RFC 8785")
    ]
    votes_for: Annotated[
        Digest | None, Field(description="of the parameters that `votes` are for, RFC 8785; null: no votes")
    ] = None
    route: Annotated[RouteSeen | None, Field(description="null: every approver may answer")] = None
    own_key: Annotated[bool | None, Field(description="true: no delegate may sign an answer")] = None
    claimed: Annotated[
        LedgerCount | None,
        Field(description="rows that counted on an unsigned outcome's word, if fewer than its own"),
    ] = None


class ResolvedVerdict(Verdict):
    """What an approved action came to: all gates once more, on the session as it was then.

    `input` is the review that completed the approval, `action` the action itself.
    """

    schema_name: Annotated[Literal["sluice/resolved_verdict/v1"], Field(alias="schema")]  # type: ignore[assignment]
    action_id: Id
    agent_id: Id
    session_id: Id
    resolves: Annotated[Id, Field(description="the verdict that asked for the approval")]
    action: InputCoordinates
    escalation: EscalationSeen
    approvals: Annotated[list[CountedApproval], Field(min_length=1)]
    narrowed: Annotated[
        Digest | None,
        Field(description="of the parameters that the review puts in place of the action's, RFC 8785"),
    ] = None
