"""What seed 002's headers say of a record: its verdict checkpoints, its advisories, and what a model made of
the agent's reasoning. Kafka headers and HTTP responses say the same, because both ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Fields = Mapping[str, Any]
    Entry = dict[str, Any]

OBSERVED = dict.fromkeys(("front", "autonomy", "integrity", "back"), "observed")
"""Of a record that is no decision: it passed no checkpoint."""
ANALYSING = frozenset(("causal", "grader"))
"""The gates whose model judges reasoning."""
UNDECIDED = ("inconclusive", "budget_exceeded", "deadline_elapsed", "port_busy")
"""How a gate's reason begins that came to no judgement."""
CHECKPOINT_ID = "checkpoint:"
"""Before the id of the verdict that holds the analysis."""
STORED = frozenset(("clear", "ambiguous", "boundary_violation"))
"""The judgements whose analysis can be fetched."""
_UNANSWERED = {"overrun": "skipped", "deadline": "skipped", "busy": "skipped", "unavailable": "error"}
_SEVERITY = ("pass", "nudged", "enforced")
_OF_ITEM = {"pass": "pass", "flag": "nudged", "downgrade": "enforced", "deny": "enforced"}


def find_checkpoints(record: Fields) -> Mapping[str, str]:
    """The four verdict checkpoints of a record: those of a verdict; of what decides on content that comes in
    `front`; OBSERVED of all others."""
    if "checkpoints" in record:
        checkpoints: Mapping[str, str] = record["checkpoints"]
        return checkpoints
    front = _find_front(record)
    return OBSERVED if front is None else {**OBSERVED, "front": front}


def find_advisories(record: Fields) -> list[Entry]:
    """What a record says for people, each with an id: a verdict's own; of content that comes in, why it was
    not judged to its end, and the quarantine in which a memory waits."""
    if "checkpoints" in record:
        return list(record["advisories"])
    subject = record.get("memory_id") or record.get("served_id")
    missing = [
        _make_entry("sluice.front", f"front was not judged to its end: {why}", f"{subject}:unjudged:{number}")
        for number, why in enumerate(dict.fromkeys(_list_unjudged(record)))
    ]
    if record.get("action") != "quarantine":
        return missing
    description = f"the memory waits for a reviewer until {record.get('expires_at')}: {record['reason']}"
    return [_make_entry("sluice.quarantine", description, str(record["memory_id"])), *missing]


def find_aip_verdict(record: Fields) -> str:
    """Seed 002's X-AIP-Verdict of a verdict: what the gates whose model judges reasoning made of it."""
    if ANALYSING.isdisjoint(record["stages"]):
        return "disabled"
    results = [result for result in record["gateResults"] if result["gate"] in ANALYSING]
    asked = [output["status"] for output in record["model_outputs"] if output["gate"] in ANALYSING]
    if not results or not asked:
        return "skipped"
    judged = [
        (result["passed"], result["failureReason"], result["detail"].get("objection")) for result in results
    ]
    broken = [reason or objection or "" for passed, reason, objection in judged if objection or not passed]
    if any(not reason.startswith(UNDECIDED) for reason in broken):
        return "boundary_violation"
    unanswered = [_UNANSWERED[status] for status in asked if status in _UNANSWERED]
    if unanswered:
        return max(unanswered, key=("skipped", "error").index)
    return "ambiguous" if broken else "clear"


def _find_front(record: Fields) -> str | None:
    schema = record.get("schema")
    if schema == "sluice/memory_decision/v1":
        outcome = "pass" if record["action"] == "allow" else "enforced"
        unsure = record.get("shadowAction") or _list_unjudged(record)
    elif schema == "sluice/quality_decision/v1":
        outcome, unsure = _OF_ITEM[record["outcome"]], record.get("would_have_been")
    elif schema == "sluice/served_retrieval/v1":
        outcomes = [_OF_ITEM[item["outcome"]] for item in record["items"]]
        outcomes += ["enforced"] if record["withheld"] else []
        outcome, unsure = max(outcomes, key=_SEVERITY.index, default="pass"), _list_unjudged(record)
    else:
        return None
    return "observed" if outcome == "pass" and unsure else outcome


def _list_unjudged(record: Fields) -> list[str]:
    """Why content was not judged to its end, where that counts as nothing."""
    if record.get("schema") == "sluice/memory_decision/v1":
        analysis = record.get("analysis") or {}
        return [str(analysis["detail"])] if analysis.get("status") == "ignored" else []
    items = record["items"] if record.get("schema") == "sluice/served_retrieval/v1" else ()
    return [item["unjudged"] for item in items if item.get("unjudged")]


def _make_entry(source: str, text: str, an_id: str) -> Entry:
    return {"source": source, "text": text, "severity": "warn", "id": an_id}
