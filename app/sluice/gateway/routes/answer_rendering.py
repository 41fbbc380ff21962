"""Committed records as HTTP answers: status, body, and what seed 002's headers say of them. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.client.answers import ActionAnswer, make_refusal
from sluice.gateway.http.edge import ERROR_SCHEMA
from sluice.gateway.http.http_errors import build_error_body
from sluice.gateway.idempotency import StoredAnswer
from sluice.gateway.openapi_shapes import (
    EVALUATION_SCHEMA,
    PENDING_SCHEMA,
    EvaluationResponse,
    build_answer_fields,
    build_answer_schema,
)
from sluice_topics.checkpoints import (
    ANALYSING,
    CHECKPOINT_ID,
    STORED,
    find_advisories,
    find_aip_verdict,
    find_checkpoints,
)
from sluice_topics.records import MemoryDecision

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_checkpoint(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The integrity checkpoint that a verdict holds: the analysis, and what attests it. None: none ran."""
    if find_aip_verdict(record) not in STORED:
        return None
    asked = [output for output in record["model_outputs"] if output["gate"] in ANALYSING]
    gates = {output["gate"] for output in asked}
    return {
        "checkpoint_id": CHECKPOINT_ID + record["verdict_id"],
        "verdict": find_aip_verdict(record),
        "integrity": record["checkpoints"]["integrity"],
        "analyses": [result for result in record["gateResults"] if result["gate"] in gates],
        "model_outputs": asked,
        **{name: record[name] for name in ATTESTED},
    }


ATTESTED = (
    "verdict_id",
    "action_id",
    "agent_id",
    "session_id",
    "decided_at",
    "bundle_hash",
    "registry_hashes",
    "rerun_hash",
    "sequence",
    "prev_hash",
    "event_hash",
)
FRONT_ONLY = {
    "source": "sluice.gateway",
    "text": "autonomy, integrity and back are observed only: content came in, and nothing is done or said",
    "severity": "info",
    "id": "gateway:content_came_in",
}


def write_body(body: Mapping[str, Any]) -> str:
    """A body as it is sent."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


_COPIED = tuple(
    field.alias or name
    for name, field in EvaluationResponse.model_fields.items()
    if name not in ("evaluation_ms", "error")
)


def build_evaluation(record: Mapping[str, Any]) -> dict[str, Any]:
    """The response about a record of gate.verdicts: the same whenever it is made."""
    body = {name: record.get(name) for name in _COPIED}
    body["evaluationMs"] = round(sum(float(result["durationMs"]) for result in record["gateResults"]), 3)
    shown = [result["detail"] for result in record["gateResults"] if "replacement" in result["detail"]]
    body["input"] = record.get("action") or record.get("input")
    body["replacement"] = shown[-1]["replacement"] if shown else None
    if choose_status(record) != 200:  # noqa: PLR2004 - the status is the rule: autonomy=enforced
        refusal = make_refusal(ActionAnswer.of(record))
        reason = refusal.verdict.reason or "denied"
        details = {"gate": refusal.verdict.gate, "to_do": refusal.to_do, "verdict_id": record["verdict_id"]}
        body |= build_error_body(reason.partition(":")[0], reason, details)
    return body


def choose_status(record: Mapping[str, Any]) -> int:
    """Seed 000's statuses: standard is advice, and always 200."""
    if record["mode"] == "standard" or record["verdict"] == "allowed":
        return 200
    return 422 if record["verdict"] == "denied" else 202


def render_evaluation(record: Mapping[str, Any], status: int | None = None) -> StoredAnswer:
    """The answer about a verdict; `status` None: by seed 000's rule."""
    checkpoint = read_checkpoint(record)
    facts = {
        "schema": EVALUATION_SCHEMA,
        "checkpoints": record["checkpoints"],
        "advisories": record["advisories"],
        "agent": record["agent_id"],
        "session": record["session_id"],
        "aip_verdict": find_aip_verdict(record),
        "checkpoint_id": None if checkpoint is None else checkpoint["checkpoint_id"],
        "log": {"verdict_id": record["verdict_id"], "verdict": record["verdict"]},
    }
    return StoredAnswer(
        choose_status(record) if status is None else status, write_body(build_evaluation(record)), facts
    )


def build_memory_schema() -> dict[str, Any]:
    """The answer to POST /v1/memory/evaluate: MemoryDecision, and where the memory waits."""
    schema = build_answer_schema(MemoryDecision)
    description = "the id under which a held memory waits at /v1/quarantine; absent of others"
    schema["properties"]["quarantine_id"] = {"type": "string", "description": description}
    return schema


def render_memory(record: Mapping[str, Any]) -> StoredAnswer:
    """The answer about a record of gate.memory.decisions: 200 whatever was decided; `action` says it."""
    facts = _read_content_facts(record) | {
        "log": {"memory_id": record["memory_id"], "action": record["action"]}
    }
    waiting = {"quarantine_id": record["memory_id"]} if record["action"] == "quarantine" else {}
    return StoredAnswer(200, write_body(build_answer_fields(record) | waiting), facts)


def render_retrieval(record: Mapping[str, Any]) -> StoredAnswer:
    """The answer about a record of gate.memory.retrievals.served."""
    facts = _read_content_facts(record) | {"log": {"served_id": record["served_id"]}}
    return StoredAnswer(200, write_body(build_answer_fields(record)), facts)


def render_outcome(record: Mapping[str, Any]) -> StoredAnswer:
    """The answer about an outcome: settled, 422 where it was refused, 202 where it waits for its action."""
    if record["schema"] == PENDING_SCHEMA:
        return render_answer(202, build_answer_fields(record), PENDING_SCHEMA)
    if "refusal_id" not in record:
        facts = {"schema": record["schema"], "session": record["session_id"]}
        return StoredAnswer(200, write_body(build_answer_fields(record)), facts)
    details = {"subject": record.get("subject"), "refusal_id": record["refusal_id"]}
    body = build_error_body(record["reason"], record["message"], details)
    return StoredAnswer(422, write_body(body), {"schema": ERROR_SCHEMA})


_COUNTED = ("sluice/approval_counted/v1", "sluice/retrieval_approval_counted/v1")


def render_review(record: Mapping[str, Any]) -> StoredAnswer:
    """Render the result of a reviewer's answer: 200 where it counted, 422 where it was refused."""
    if "refusal_id" in record:
        return render_outcome(record)
    body = {"status": "counted" if record["schema"] in _COUNTED else "ended", **build_answer_fields(record)}
    return render_answer(200, body, record["schema"])


def render_answer(status: int, body: Mapping[str, Any], schema: str) -> StoredAnswer:
    """An answer that is no decision of a gate."""
    return StoredAnswer(status, write_body(body), {"schema": schema})


def _read_content_facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Read the facts about content that came in: the checkpoint `front` judged it."""
    return {
        "schema": record["schema"],
        "checkpoints": find_checkpoints(record),
        "advisories": [*find_advisories(record), FRONT_ONLY],
        "agent": record["agent_id"],
        "session": record["session_id"],
    }
