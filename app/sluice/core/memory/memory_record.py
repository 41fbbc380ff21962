"""The MemoryDecision record, field by field as in sluice_topics/records/memory.py; plain dicts."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.canonical import digest_alike, extract_hex
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import memory_id
from sluice.core.foundation.sealed_input import seal_outputs
from sluice.core.memory.plan import NOTHING_SEEN, Parent, RememberedWrite, WriteSeen
from sluice.core.memory.similarity import VECTOR
from sluice.core.state.history import History
from sluice.detection.text_inspection import make_finding_fields
from sluice_topics.catalog import MEMORY_DECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.sealed_input import OpenedInput
    from sluice.core.memory.gate import WriteJudgement
    from sluice.core.memory.plan import WriteContext
    from sluice_topics.records import ProposedMemoryWrite

SCHEMA = "sluice/memory_decision/v1"
SIGNATURE = "signature"
ALWAYS_RERUN = (
    "input",
    "bundle_hash",
    "registry_hashes",
    "seen",
    "model_outputs",
    "enforcement",
    "action",
    "shadowAction",
    "reason",
    "trustScore",
    "findings",
    "quality_faults",
    "similarity",
    "analysis",
    "reviewAfterMs",
    "duplicate_of",
    "content_digest",
)
RERUN_FIELDS = (*ALWAYS_RERUN, SIGNATURE)
"""What a rerun must get again, in the hash's order; the record's other fields follow from these. `signature`
is there where one was verified."""
_rerun_values = itemgetter(*ALWAYS_RERUN)


def record_seen(observed: WriteSeen) -> dict[str, Any]:
    """The decision's `seen`."""
    previous, history = observed.previous, observed.history
    return {
        "known": None
        if previous is None
        else {
            "digest": f"sha256:{previous.digest}",
            "offset": previous.offset,
            "action": previous.action,
            "shadow": previous.shadow,
        },
        "room": observed.has_capacity,
        "source": {
            "type": history.type,
            "positive": history.positive,
            "negative": history.negative,
            "revision": history.revision,
            "session_type": observed.session_type,
            "last_at": observed.last_at,
        },
        "parents": [{"memory_id": parent.memory_id, "trust": parent.trust} for parent in observed.parents]
        if observed.parents
        else [],
    }


def read_seen(decision: Mapping[str, Any], write: ProposedMemoryWrite) -> WriteSeen:
    """What a decision on this write says that was seen: the way back of `record_seen`. Which parents there
    are says the write."""
    observed = decision["seen"]
    previous, trust = observed["known"], read_parent_trust(decision)
    return WriteSeen(
        None
        if previous is None
        else RememberedWrite(
            extract_hex(previous["digest"]), previous["offset"], previous["action"], previous["shadow"]
        ),
        previous is not None or observed["room"],
        read_history(decision),
        observed["source"]["session_type"],
        observed["source"]["last_at"],
        tuple(Parent(source, trust.get(source)) for source in dict.fromkeys(write.derived_from or ())),
    )


def read_history(decision: Mapping[str, Any]) -> History:
    """The history of its source as a decision saw it."""
    source = decision["seen"]["source"]
    return History(source["type"], source["positive"], source["negative"], source["revision"])


def read_parent_trust(decision: Mapping[str, Any]) -> dict[str, float | None]:
    """The trust of its parents, by their ids, as a decision saw it."""
    return {parent["memory_id"]: parent["trust"] for parent in decision["seen"]["parents"]}


def record_decision(
    context: WriteContext, judged: WriteJudgement, shadow: str | None, duplicate_of: str | None
) -> OutRecord:
    """The decision without its place in the chain. `judged.action` is what is published; `shadow` is the
    action that shadow mode hides."""
    plan, input_record, write = context.plan, context.input_record, context.write
    is_quarantined = judged.action == "quarantine" and duplicate_of is None
    review_after = plan.bundle.memory.review_after_ms if is_quarantined else None
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "memory_id": context.memory_id,
        "write_id": write.write_id,
        "agent_id": write.agent_id,
        "session_id": write.session_id,
        "traceId": write.trace_id,
        "request_id": write.request_id,
        "action": judged.action,
        "shadowAction": shadow,
        "reason": judged.reason,
        "trustScore": None if judged.scored is None else judged.scored.fields,
        "findings": list(map(make_finding_fields, judged.findings)),
        "quality_faults": [{"field": fault.field, "problem": fault.problem} for fault in judged.faults]
        if judged.faults
        else [],
        "similarity": judged.similarity,
        "analysis": judged.analysis,
        "reviewAfterMs": review_after,
        "expires_at": None if review_after is None else rfc3339(context.now_ms + review_after),
        "duplicate_of": duplicate_of,
        "content_digest": context.content_digest,
        "content_characters": len(write.content),
        "registry_hashes": context.hashes(),
        "seen": record_seen(context.observed),
        "model_outputs": judged.model_outputs,
        "decided_at": rfc3339(context.now_ms),
        "input": input_record.coordinates(),
        **plan.fields,
    }
    signature = None if input_record.signature is None else input_record.signature.make_fields()
    if signature is not None:
        body[SIGNATURE] = signature
    if input_record.opened is not None:
        _seal_decision(body, input_record.opened)
    alike = put_rerun_hash(body)
    return OutRecord(MEMORY_DECISIONS, "MemoryDecision", body, write.session_id, alike=alike)


def _seal_decision(body: dict[str, Any], opened: OpenedInput) -> None:
    """Seal what the gate made of a write with opened values. Findings name patterns and places alone, but for
    cosines: an encoder is public, and they tell one text from another as a digest does."""
    body["content_characters"] = len(opened.sealed["content"])
    body["reason"] = opened.seal_reason(body["reason"], "reason")
    for number, fault in enumerate(body["quality_faults"]):
        fault["problem"] = opened.seal(fault["problem"], "quality_faults", number, "problem")
    for name in ("analysis", "similarity"):
        if len(body[name]) > 1:
            status = body[name]["status"]
            body[name] = {"status": status, "said": opened.seal(body[name], name, "said")}
    for number, finding in enumerate(body["findings"]):
        if finding["form"] == VECTOR:
            finding["reason"] = opened.seal(finding["reason"], "findings", number, "reason")
    seal_outputs(body["model_outputs"], opened)


def record_unread(input_record: InputRecord, bundle_hash: str, reason: str, subject: str) -> OutRecord:
    """The rejection of an input that was not read: none of its fields is known."""
    body: dict[str, Any] = dict.fromkeys(
        ("write_id", "agent_id", "session_id", "tenant_id", "traceId", "request_id", "shadowAction")
    )
    body |= dict.fromkeys(("trustScore", "reviewAfterMs", "expires_at", "duplicate_of", "content_digest"))
    body |= {
        "schema": SCHEMA,
        "memory_id": memory_id(input_record.decision_id),
        "action": "reject",
        "enforcement": "enforce",
        "reason": reason,
        "findings": [],
        "quality_faults": [],
        "similarity": {"status": "off"},
        "analysis": {"status": "off"},
        "content_characters": None,
        "policy_bundle_id": None,
        "bundle_hash": bundle_hash,
        "registry_hashes": {},
        "seen": record_seen(NOTHING_SEEN),
        "model_outputs": [],
        "decided_at": rfc3339(input_record.timestamp_ms),
        "input": input_record.coordinates(),
    }
    signature = None if input_record.signature is None else input_record.signature.make_fields()
    if signature is not None:
        body[SIGNATURE] = signature
    return OutRecord(MEMORY_DECISIONS, "MemoryDecision", add_rerun_hash(body), subject)


def add_rerun_hash(body: dict[str, Any]) -> dict[str, Any]:
    """The body with its `rerun_hash`: over all inputs of the decision and the decision."""
    put_rerun_hash(body)
    return body


def put_rerun_hash(body: dict[str, Any]) -> bool:
    """Give the body its `rerun_hash`. Returns whether orjson writes the body as RFC 8785 does: the fields
    that the hash does not cover are texts and whole numbers."""
    values = _rerun_values(body)
    if SIGNATURE in body:
        values += (body[SIGNATURE],)
    body["rerun_hash"], alike = digest_alike(values)
    return alike
