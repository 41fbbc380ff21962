"""The shapes of requests and answers: models and JSON Schemas for the OpenAPI document. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sluice.core.registry.freezes import Stage, Subject  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.records import (
    ActionOutcome,
    ProposedAction,
    ProposedMemoryWrite,
    ProposedRetrieval,
    ReviewDecision,
    TaskMandate,
)
from sluice_topics.records.base import (  # noqa: TC001 - pydantic reads the annotations
    CheckpointState,
    Digest,
    Enforcement,
    InputCoordinates,
    LedgerCount,
    Mode,
    Moment,
    Outcome,
    Tier,
    VerdictWord,
)
from sluice_topics.records.inputs import SeedAction
from sluice_topics.records.verdicts import Advisory, Checkpoints, GateResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice_topics.records.base import Record

EVALUATION_SCHEMA = "sluice/evaluation/v1"
PENDING_SCHEMA = "sluice/pending/v1"
ESCALATION_SCHEMA = "sluice/escalation/v1"
WAITING_SCHEMA = "sluice/waiting/v1"


class ErrorDetail(BaseModel):
    """Why a request has no other answer."""

    code: str
    message: str
    details: dict[str, Any]


class ErrorResponse(BaseModel):
    """Every error."""

    error: ErrorDetail


class EvaluationResponse(BaseModel):
    """The decision on an action: seed 001's fields and seed 000's, by the record's names.

    `error` stands where the action may not be carried out: in place of the tool's result (seed 002,
    autonomy=enforced).
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    verdict_id: str
    action_id: str | None
    agent_id: str | None
    session_id: str | None
    trace_id: str | None = Field(alias="traceId")
    verdict: VerdictWord
    outcome: Outcome
    shadow_outcome: Outcome | None = Field(alias="shadowOutcome")
    mode: Mode
    enforcement: Enforcement
    tier: Tier | None
    block_reason: str | None = Field(alias="blockReason")
    escalation_id: str | None = Field(alias="escalationId")
    evaluation_ms: float = Field(alias="evaluationMs", description="the sum of the gates' times")
    gate_results: list[GateResult] = Field(alias="gateResults")
    rule_results: list[dict[str, Any]]
    evidence_refs: list[str]
    rerun_hash: Digest
    duplicate_of: str | None
    obligations: list[str]
    rows_reserved: LedgerCount
    checkpoints: Checkpoints
    advisories: list[Advisory]
    decided_at: Moment
    input: InputCoordinates | None = Field(
        default=None, description="where the action lies: what an enforcement point signs its outcome for"
    )
    replacement: dict[str, Any] | None = Field(
        default=None, description="parameters with a warning or without what may not leave (checkpoint back)"
    )
    error: ErrorDetail | None = None


class EscalationResponse(BaseModel):
    """How an escalated action stands. While it waits, the fields of the record that opened it are here too.

    `parameters`: narrower ones, with which alone the action may be carried out.
    """

    model_config = ConfigDict(extra="allow")

    escalation_id: str
    status: Literal["pending", "approved", "denied", "expired"]
    reason: str | None = None
    parameters: dict[str, Any] | None = None
    resolved: EvaluationResponse | None = None


class WaitingResponse(BaseModel):
    """What waits for a person; `count` is of all, also where not all are listed."""

    waiting: list[dict[str, Any]]
    count: int


class ReviewResponse(BaseModel):
    """What became of a reviewer's answer, with the fields of the record that says so."""

    model_config = ConfigDict(extra="allow")

    status: Literal["ended", "counted"]


class CheckpointResponse(BaseModel):
    """Seed 002's integrity checkpoint: what a model made of an agent's reasoning in one decision, and the
    decision's place in its partition's hash chain, by which the whole chain can be fetched and verified.

    `verdict`: as X-AIP-Verdict has it. `analyses`: the gates that asked a model; `model_outputs`: what it
    answered.
    """

    checkpoint_id: str
    verdict: Literal["clear", "ambiguous", "boundary_violation"]
    integrity: CheckpointState
    analyses: list[GateResult]
    model_outputs: list[dict[str, Any]]
    verdict_id: str
    action_id: str | None
    agent_id: str | None
    session_id: str | None
    decided_at: Moment
    bundle_hash: Digest
    registry_hashes: dict[str, Digest]
    rerun_hash: Digest
    sequence: int
    prev_hash: str
    event_hash: Digest


class RecordInclusion(BaseModel):
    """A ledger record, and the hashes that lead from it to a head's root, from the leaf upwards."""

    topic: str
    partition: int
    offset: int
    sequence: int
    record: str
    path: list[Digest]
    partition_path: list[Digest]


class InclusionResponse(BaseModel):
    """A signed tree head, a DSSE envelope, and what shows that records are in its ledger."""

    schema_name: Annotated[Literal["sluice/inclusion_proof/v1"], Field(alias="schema")]
    head: dict[str, Any]
    proofs: list[RecordInclusion]


class RerunDifference(BaseModel):
    """A field that came out otherwise."""

    field: str
    recorded: Any
    rerun: Any


class RerunResponse(BaseModel):
    """A decision executed again: `identical`, or what differs, or what is gone."""

    verdict_id: str
    identical: bool
    status: Literal["identical", "different", "other_version", "evidence_gone", "erased"]
    differences: list[RerunDifference]
    missing: list[str]
    decided_by: str | None
    executed_by: str | None
    not_checked: list[str]


class SessionResponse(BaseModel):
    """A session's totals in the caller's tenant. `folded`: it was idle, and begins at zero again."""

    session_id: str
    last_verdict_id: str
    as_of: Moment
    folded: bool
    aggregate_rows_affected: LedgerCount = Field(alias="aggregateRowsAffected")
    aggregate_action_count: LedgerCount = Field(alias="aggregateActionCount")


class ListedAdvisory(Advisory):
    """An advisory, and the decision that has it."""

    verdict_id: str
    request_id: str | None
    session_id: str
    decided_at: Moment


class AdvisoriesResponse(BaseModel):
    """The advisories of the newest decisions on an agent's actions; `count` is of all that were found."""

    agent_id: str
    advisories: list[ListedAdvisory]
    count: int


class ListedFreeze(BaseModel):
    """A freeze in force. `freeze`: its entry, "freeze/id@revision"; `stage`: "ask" has a person agree."""

    freeze: str
    subject: Subject
    subject_id: str
    stage: Stage
    reason: str


class FreezesResponse(BaseModel):
    """What is frozen of an agent in a session now. `may_start`: nothing is, also nothing that asks first."""

    agent_id: str
    session_id: str | None
    may_start: bool
    freezes: list[ListedFreeze]


class PendingResponse(BaseModel):
    """An input that is not decided yet: an action, or an outcome whose action has not come."""

    verdict_id: str | None = None
    outcome_id: str | None = None
    status: Literal["pending"] = "pending"


LEDGER_FIELDS = frozenset(
    ("partition", "sequence", "prev_hash", "event_hash", "decider_version", "schema", "seen", "input")
)
"""Of a record, what belongs to the ledger and not to the answer."""
_SEEDS_NAMES = {"agent_id": "agentId", "session_id": "sessionId"}
"""How seed 001's request names them; the other spelling is read too."""


def build_answer_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as an answer."""
    return {name: value for name, value in record.items() if name not in LEDGER_FIELDS}


def build_answer_schema(model: type[Record]) -> dict[str, Any]:
    """The JSON Schema of a record as an answer."""
    schema = _build_whole(model)
    schema["properties"] = build_answer_fields(schema["properties"])
    schema["required"] = [name for name in schema.get("required", ()) if name not in LEDGER_FIELDS]
    return schema


def build_action_schema() -> dict[str, Any]:
    """The body of POST /v1/evaluate: ProposedAction, with what a request may leave to the gateway, in seed
    001's names or in seed 000's form."""
    schema = _build_request(ProposedAction, "request_id")
    schema["properties"]["mode"] = {
        "anyOf": [
            {"enum": ["standard", "high_stakes", "ENFORCE", "SHADOW"], "type": "string"},
            {"type": "null"},
        ],
        "description": "ENFORCE reads as high_stakes; SHADOW only where the tenant is in shadow",
    }
    schema["properties"]["proposed_action"] = _build_whole(SeedAction)
    schema["properties"]["mandate"] = {
        "anyOf": [build_mandate_schema(), {"type": "null"}],
        "description": "the signed mandate that the action names, published before it",
    }
    schema["required"] = []
    schema["oneOf"] = [
        {"required": ["toolName", "parameters"], "not": {"required": ["proposed_action"]}},
        {
            "required": ["proposed_action"],
            "not": {"anyOf": [{"required": ["toolName"]}, {"required": ["parameters"]}]},
        },
    ]
    return schema


def build_mandate_schema() -> dict[str, Any]:
    """The body of POST /v1/mandates: as its issuer signed it."""
    return _build_request(TaskMandate)


def build_write_schema() -> dict[str, Any]:
    """The body of POST /v1/memory/evaluate."""
    return _build_request(ProposedMemoryWrite, "request_id", left_out=("write_id",))


def build_retrieval_schema() -> dict[str, Any]:
    """The body of POST /v1/retrievals/evaluate."""
    return _build_request(ProposedRetrieval, left_out=("request_id",))


def build_outcome_schema() -> dict[str, Any]:
    """The body of POST /v1/outcomes."""
    return _build_request(ActionOutcome, left_out=("reported_by",))


def build_review_schema() -> dict[str, Any]:
    """The body of an answer to an escalation or a held memory: as the approver signed it."""
    return _build_request(ReviewDecision, left_out=("subject_id",))


def _build_request(model: type[Record], *never: str, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """A record as a request: without the fields that the gateway alone fills in (`never`)."""
    schema = _build_whole(model)
    properties = {_SEEDS_NAMES.get(name, name): shape for name, shape in schema["properties"].items()}
    schema["properties"] = {name: shape for name, shape in properties.items() if name not in never}
    optional = {*never, *left_out, *_SEEDS_NAMES}
    schema["required"] = [name for name in schema.get("required", ()) if name not in optional]
    return schema


def _build_whole(model: type[Record]) -> dict[str, Any]:
    """A record's schema without references."""
    schema = model.model_json_schema(by_alias=True)
    whole: dict[str, Any] = _inline(schema, schema.pop("$defs", {}))
    return whole


def _inline(part: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(part, dict):
        if "$ref" in part:
            return _inline(definitions[part["$ref"].rpartition("/")[2]], definitions)
        return {name: _inline(value, definitions) for name, value in part.items()}
    if isinstance(part, list):
        return [_inline(item, definitions) for item in part]
    return part
