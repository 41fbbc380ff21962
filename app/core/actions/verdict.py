"""The Verdict record, field by field as topics/records/verdicts.py has it; plain dicts for speed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.actions.ruling import VERDICT_OF, Ruling
from app.core.foundation.canonical import digest, wire_int
from app.core.foundation.chain import OutRecord
from app.core.foundation.clock import rfc3339
from app.core.foundation.ids import verdict_id
from app.core.state.acknowledgement import NOTHING as NO_FLAGS
from app.core.state.acknowledgement import Acknowledgement
from topics.catalog import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.actions.pipeline import Evaluation
    from app.core.foundation.arrival import Arrival
    from app.core.state.remembered import RecentAction

SCHEMA = "sluice/verdict/v1"
NOT_RUN = {
    "source": "sluice.checkpoints",
    "text": "front, integrity and back are observed only: no check of content or reasoning ran",
    "severity": "info",
}
NOTHING: dict[str, Any] = {"aggregateRowsAffected": 0, "aggregateActionCount": 0}
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


NOTHING_REMEMBERED: Mapping[str, Any] = {}


class Sight(NamedTuple):
    """What the session said of the action's id before it was judged, and which stages judge.

    `known`: what was remembered under the id; `room`: whether one more action could be remembered; `flags`:
    of what was read in the session; `dispute`: the id of an action whose outcome is disputed; `remembered`:
    what the judging gates remember of the agent, by the gate's name. With the totals these are all that a
    decision takes from its session, so that a rerun needs no more.
    """

    known: RecentAction | None
    room: bool
    stages: tuple[str, ...]
    flags: Acknowledgement = NO_FLAGS
    dispute: str | None = None
    remembered: Mapping[str, Any] = NOTHING_REMEMBERED

    def recorded(self) -> dict[str, Any] | None:
        """`known` as the verdict carries it."""
        if self.known is None:
            return None
        return {
            "digest": f"sha256:{self.known.digest}",
            "offset": self.known.offset,
            "mark": self.known.mark,
        }


NO_SIGHT = Sight(None, room=True, stages=())


@dataclass(slots=True)
class Findings:
    """What a verdict says beside the stages' evaluation. Ids that are unknown stay None."""

    ruling: Ruling
    mode: str
    enforcement: str
    policy_bundle_id: str | None
    bundle_hash: str
    registry_hashes: dict[str, str]
    before: dict[str, Any] = field(default_factory=lambda: NOTHING)
    after: dict[str, Any] = field(default_factory=lambda: NOTHING)
    ids: dict[str, Any] = field(default_factory=dict)
    tier: str | None = None
    escalation_id: str | None = None
    duplicate_of: str | None = None
    rows_reserved: int = 0
    waited_ms: int | None = None
    advisories: list[dict[str, Any]] = field(default_factory=list)
    sight: Sight = NO_SIGHT


def verdict_record(arrival: Arrival, findings: Findings, evaluation: Evaluation, subject: str) -> OutRecord:
    """The verdict without its place in the chain.

    `rerun_hash` is over the canonical form of the list of the values of RERUN_FIELDS, gateResults without
    durations: all inputs of the decision and the decision. Raises CanonicalError when a stage's detail is no
    JSON value.
    """
    body = _decided(arrival, findings, evaluation)
    body["rerun_hash"] = digest([body[name] for name in RERUN_FIELDS if name in body], finite=True)
    for gate, duration_ns in zip(evaluation.gates, evaluation.durations_ns, strict=True):
        gate["durationMs"] = milliseconds(duration_ns)
    return OutRecord(VERDICTS, "Verdict", body, subject)


def milliseconds(duration_ns: int) -> int | float:
    """A duration in ms, to the microsecond. Whole ones are integers: RFC 8785 writes 1, not 1.0."""
    ms = duration_ns // _MICROSECOND_NS / _MILLISECOND_US
    return int(ms) if ms.is_integer() else ms


def _decided(arrival: Arrival, findings: Findings, evaluation: Evaluation) -> dict[str, Any]:
    ruling = findings.ruling
    waited = {} if findings.waited_ms is None else {"waited_ms": findings.waited_ms}
    return {
        "schema": SCHEMA,
        "verdict_id": verdict_id(arrival.decision_id),
        **findings.ids,
        "verdict": VERDICT_OF[ruling.outcome],
        "outcome": ruling.outcome,
        "shadowOutcome": ruling.shadow,
        "mode": findings.mode,
        "enforcement": findings.enforcement,
        **waited,
        "tier": findings.tier,
        "blockReason": evaluation.reason,
        "escalationId": findings.escalation_id,
        "duplicate_of": findings.duplicate_of,
        "gateResults": evaluation.gates,
        "rule_results": evaluation.rules,
        "evidence_refs": evaluation.evidence,
        "policy_bundle_id": findings.policy_bundle_id,
        "bundle_hash": findings.bundle_hash,
        "registry_hashes": findings.registry_hashes,
        "stages": findings.sight.stages,
        "checkpoints": {
            "front": "observed",
            "autonomy": ruling.autonomy,
            "integrity": "observed",
            "back": "observed",
        },
        "advisories": [*evaluation.advisories, *findings.advisories, NOT_RUN],
        "obligations": evaluation.obligations,
        "session": _session(findings),
        "rows_reserved": wire_int(findings.rows_reserved),
        "model_outputs": evaluation.model_outputs,
        "decided_at": rfc3339(arrival.timestamp_ms),
        "input": arrival.coordinates(),
    }


def _session(findings: Findings) -> dict[str, Any]:
    """A dispute is named where there is one, and what gates remember where they do; verdicts from before
    there was either stay as they are."""
    sight = findings.sight
    values: dict[str, Any] = {
        "before": findings.before,
        "after": findings.after,
        "known": sight.recorded(),
        "room": sight.room,
        "flags": sight.flags.recorded(),
    }
    if sight.dispute is not None:
        values["disputed"] = sight.dispute
    if sight.remembered:
        values["remembered"] = sight.remembered
    return values
