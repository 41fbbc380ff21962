"""The Verdict record, field by field as topics/records/verdicts.py has it; plain dicts for speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.ruling import VERDICT_OF
from app.core.foundation.canonical import digest
from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.foundation.ids import verdict_id
from topics.catalog import VERDICTS

if TYPE_CHECKING:
    from app.core.actions.pipeline import Evaluation
    from app.core.actions.ruling import Ruling
    from app.core.foundation.arrival import Arrival

SCHEMA = "sluice/verdict/v1"
NOT_RUN = {
    "source": "sluice.checkpoints",
    "text": "front, integrity and back are observed only: no check of content or reasoning ran",
    "severity": "info",
}
RERUN_FIELDS = (
    "input",
    "bundle_hash",
    "registry_hashes",
    "stages",
    "session",
    "model_outputs",
    "outcome",
    "shadowOutcome",
    "blockReason",
    "duplicate_of",
    "tier",
    "mode",
    "enforcement",
    "waited_ms",
    "gateResults",
    "rule_results",
    "evidence_refs",
    "obligations",
    "rows_reserved",
    "advisories",
)
"""What a rerun must get again, in the hash's order; the record's other fields follow from these.

`waited_ms` is there where the caller gave a deadline: verdicts from before there was one keep their hash.
"""
_MICROSECOND_NS = 1000
_MILLISECOND_US = 1000


def verdict_record(
    arrival: Arrival, about: dict[str, Any], evaluation: Evaluation, ruling: Ruling, subject: str
) -> OutRecord:
    """The verdict without its place in the chain.

    `about`: by wire names what the verdict says beside the stages' evaluation and its ruling, which are all
    of the fields that have no value here; its advisories follow those of the stages.

    `rerun_hash` is over the canonical form of the list of the values of RERUN_FIELDS, gateResults without
    durations: all inputs of the decision and the decision. Raises CanonicalError when a stage's detail is no
    JSON value.
    """
    body = {
        "schema": SCHEMA,
        "verdict_id": verdict_id(arrival.decision_id),
        "verdict": VERDICT_OF[ruling.outcome],
        "outcome": ruling.outcome,
        "shadowOutcome": ruling.shadow,
        "tier": None,
        "blockReason": evaluation.reason,
        "escalationId": None,
        "duplicate_of": None,
        "gateResults": evaluation.gates,
        "rule_results": evaluation.rules,
        "evidence_refs": evaluation.evidence,
        "checkpoints": {
            "front": "observed",
            "autonomy": ruling.autonomy,
            "integrity": "observed",
            "back": "observed",
        },
        "obligations": evaluation.obligations,
        "rows_reserved": 0,
        "model_outputs": evaluation.model_outputs,
        "decided_at": rfc3339(arrival.timestamp_ms),
        "input": arrival.coordinates(),
        **about,
        "advisories": [*evaluation.advisories, *about["advisories"], NOT_RUN],
    }
    body["rerun_hash"] = digest([body[name] for name in RERUN_FIELDS if name in body], finite=True)
    for gate, duration_ns in zip(evaluation.gates, evaluation.durations_ns, strict=True):
        gate["durationMs"] = milliseconds(duration_ns)
    return OutRecord(VERDICTS, "Verdict", body, subject)


def milliseconds(duration_ns: int) -> int | float:
    """A duration in ms, to the microsecond. Whole ones are integers: RFC 8785 writes 1, not 1.0."""
    ms = duration_ns // _MICROSECOND_NS / _MILLISECOND_US
    return int(ms) if ms.is_integer() else ms
