"""The QualityDecision record, field by field as sluice_topics/records/retrievals.py has it; plain dicts.

Their keys stand in canonical order from the start, the record's own and those of all inside it, so that it is
written by one pass that sorts nothing and looks for nothing.
"""

from __future__ import annotations

import math
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.canonical import canonical, digest, encode_ordered, is_odd_float
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import quality_id
from sluice.core.foundation.sealed_input import seal_outputs
from sluice.core.metadata.provenance import Resolution
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.retrieval.dimensions import NUMBERS
from sluice.core.retrieval.item_texts import record_class, record_uri
from sluice.detection.text_inspection import make_finding_fields
from sluice.text.places import normal_uri
from sluice_topics.catalog import QUALITY_DECISIONS
from sluice_topics.records import QualityDecision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.foundation.sealed_input import OpenedInput
    from sluice.core.registry.quality_entries import QualityOverrideEntry
    from sluice.core.retrieval.judgement import Judged
    from sluice.core.retrieval.plan import ItemApproval, RetrievalContext
    from sluice.core.retrieval.provenance_check import Resolutions
    from sluice.detection.text_inspection import Finding
    from sluice_topics.records.retrieval_inputs import RetrievedItem

SCHEMA = "sluice/quality_decision/v1"
SCHEMA_VERSION = "1"
MAX_FINDINGS = 32
"""The gravest first: a request has up to a thousand items, and each decision is a record."""
LARGEST_SCORE = 1e15
_LEAST_PLAIN = 1e-4
"""From here up to 1 nobody writes an exponent, and there is nothing whole: what nearly every score is."""
_MS = 1000
OF_THE_REQUEST = ("input", "quality_bundle_hash", "bundle_hash", "autonomy_tier", "enforcement")
OF_THE_ITEM = (
    "place",
    "registry_hashes",
    "seen",
    "rollout",
    "outcome",
    "would_have_been",
    "flags_set",
    "reason_codes",
    "reason",
    "stages",
    "dimensions",
    "findings",
    "freshness_age_seconds",
    "provenance_hash_verified",
    "override",
    "body_digest",
    "body_released",
)
SIGNATURE, OUTPUTS = "signature", "model_outputs"
RERUN_FIELDS = (*OF_THE_REQUEST, *OF_THE_ITEM, SIGNATURE, OUTPUTS)
"""What a rerun must get again, in the hash's order; the record's other fields follow from these. What the
items of a request share comes first: its part of the hash is made once. `signature` is there where one was
verified, `model_outputs` where a model was to be asked."""
_GRAVITY = {"definite": 0, "strong": 1, "weak": 2}
_of_the_request, _of_the_item = itemgetter(*OF_THE_REQUEST), itemgetter(*OF_THE_ITEM)
_BLANK = dict.fromkeys(
    sorted(
        {info.alias or name for name, info in QualityDecision.model_fields.items()}
        - {"event_hash", SIGNATURE, OUTPUTS}
    )
)


class Common(NamedTuple):
    """Of a request: its decision id, the fields that its items' decisions share, with null for all others in
    their places, and the hash over those of them that a rerun must get again, to be gone on with; `opened`:
    the request's sealed values."""

    decision_id: str
    fields: dict[str, Any]
    begun: Any
    opened: OpenedInput | None = None

    def hash_with(self, body: dict[str, Any], *, ordered: bool) -> str:
        """The `rerun_hash` of an item's record: over the RFC 8785 form of the list of its RERUN_FIELDS."""
        values = _of_the_item(body)
        if SIGNATURE in body:
            values += (body[SIGNATURE],)
        if OUTPUTS in body:
            values += (body[OUTPUTS],)
        rest = encode_ordered(values) if ordered else canonical(values, finite=True)
        going = self.begun.copy()
        going.update(b"," + rest[1:])
        return "sha256:" + str(going.hexdigest())


def share_fields(context: RetrievalContext) -> Common:
    """What the decisions on all items of a request have in common: made once."""
    input_record, retrieval = context.input_record, context.retrieval
    moment, decision_id, digest_of_input = (
        rfc3339(context.now_ms),
        input_record.decision_id,
        input_record.digest,
    )
    fields = {
        **_BLANK,
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "timestamp": moment,
        "request_id": retrieval.request_id,
        "request_hash": digest_of_input,
        "trace_id": retrieval.trace_id,
        "agent_id": retrieval.agent_id,
        "session_id": retrieval.session_id,
        "toolName": retrieval.tool_name,
        "tool_category": retrieval.tool_category,
        "registry_hashes": context.hashes(),
        "decided_at": moment,
        "input": {
            "digest": digest_of_input,
            "offset": input_record.offset,
            "partition": input_record.partition,
            "timestamp": input_record.timestamp_ms,
            "topic": input_record.topic,
        },
        **context.plan.fields,
    }
    begun = encode_ordered(_of_the_request(fields))
    signature = None if input_record.signature is None else input_record.signature.make_fields()
    if signature is not None:
        fields = dict(sorted({**fields, SIGNATURE: signature}.items()))
    return Common(decision_id, fields, sha256(begun[:-1]), input_record.opened)


def record_decision(
    common: Common,
    item: RetrievedItem,
    judged: Judged,
    index: int,
    escalation: str | None,
) -> OutRecord:
    """The decision on one item without its place in the chain; `escalation` is the id of the request's."""
    check, fields = judged.check, common.fields
    hidden = fields["enforcement"] == "shadow" or judged.rollout == "flag_only"
    score, ordered = _record_score(item.confidence_score)
    body: dict[str, Any] = fields | {
        "ledger_event_id": quality_id(common.decision_id, index),
        "place": index,
        "item_id": item.item_id,
        "content_class": record_class(item.content_class),
        "confidence_score": score,
        "provenance_uri": record_uri(item.provenance_uri),
        "freshness_age_seconds": _count_age_seconds(judged),
        "provenance_hash_verified": check is not None and check.verified,
        "outcome": judged.outcome,
        "flags_set": judged.flags,
        "reason_codes": judged.codes,
        "reason": judged.reason,
        "rollout": judged.rollout,
        "would_have_been": judged.real if hidden else None,
        "stages": judged.stages,
        "dimensions": judged.dimensions,
        "findings": [
            dict(sorted(make_finding_fields(finding).items())) for finding in _select_gravest(judged.findings)
        ]
        if judged.findings
        else [],
        "override": None if judged.override is None else _record_override(judged.override),
        "escalation_id": escalation if escalation is not None and judged.denied_for_quality else None,
        "body_digest": judged.body.served.digest if judged.body.is_given else None,
        "body_released": judged.body.is_given and judged.released,
        "seen": None if check is None or check.resolution is None else record_resolution(check.resolution),
    }
    if judged.entries:
        every = fields["registry_hashes"].copy()
        for entry in judged.entries:
            if entry.key:
                every[entry.key] = entry.hash
        body["registry_hashes"] = dict(sorted(every.items()))
    if judged.model_outputs:
        body[OUTPUTS], ordered = [dict(output) for output in judged.model_outputs], False
        if common.opened is not None:
            seal_outputs(body[OUTPUTS], common.opened)
    body["rerun_hash"] = common.hash_with(body, ordered=ordered)
    return OutRecord(QUALITY_DECISIONS, "QualityDecision", body, fields["session_id"], ordered)


def add_rerun_hash(body: dict[str, Any]) -> dict[str, Any]:
    """The body with its `rerun_hash`: over all inputs of the decision and the decision."""
    body["rerun_hash"] = digest([body[name] for name in RERUN_FIELDS if name in body], finite=True)
    return body


def write_whole(number: float) -> float:
    """The number, as an integer where it is one: RFC 8785 writes 1, not 1.0."""
    return int(number) if number == int(number) else number


def _record_score(value: Any) -> tuple[float | None, bool]:
    """With it, whether canonical form writes the number as any other writer does. Ages are always so: they
    are whole or in thousandths."""
    if type(value) is float and _LEAST_PLAIN <= value < 1:
        return value, True
    score = write_whole(value) if is_score(value) else None
    return score, not (isinstance(score, float) and is_odd_float(score))


def is_score(value: Any) -> bool:
    """Whether it is a number that a record can carry, within 0 and 1 or not."""
    if type(value) not in NUMBERS:
        return False
    return -LARGEST_SCORE < value < LARGEST_SCORE and math.isfinite(value)


def _count_age_seconds(judged: Judged) -> float | None:
    age_ms = None if judged.facts is None else judged.facts.age_ms
    if age_ms is None:
        return None
    return age_ms / _MS if age_ms % _MS else age_ms // _MS


def _select_gravest(findings: tuple[Finding, ...]) -> Sequence[Finding]:
    return sorted(findings, key=lambda finding: _GRAVITY[finding.weight])[:MAX_FINDINGS]


def _record_override(override: QualityOverrideEntry | ItemApproval) -> dict[str, Any]:
    return {
        "approver_id": override.approver_id,
        "expires_at": rfc3339(override.expires_ms),
        "justification": override.justification,
        "override_id": override.id,
    }


def record_resolution(resolution: Resolution) -> dict[str, Any]:
    """The decision's `seen`: the resolution that it rests on, its keys in canonical order."""
    return {
        "detail": resolution.detail,
        "hash": resolution.hash,
        "resolver": resolution.resolver,
        "seen_at": resolution.seen_ms,
        "status": resolution.status,
    }


def read_resolutions(decision: Mapping[str, Any]) -> Resolutions:
    """From a decision: the way back of `record_resolution`, under the item's own reference."""
    recorded = decision["seen"]
    if recorded is None or decision["provenance_uri"] is None:
        return {}
    tenant = UNREGISTERED if decision["tenant_id"] is None else decision["tenant_id"]
    resolution = Resolution(
        recorded["status"], recorded["hash"], recorded["resolver"], recorded["seen_at"], recorded["detail"]
    )
    return {(tenant, normal_uri(decision["provenance_uri"])): resolution}
