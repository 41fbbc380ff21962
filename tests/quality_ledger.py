"""Records on retrievals for tests: built whole, held against their models, laid as an export."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.verifier.export import Located, write_line
from sluice_topics.catalog import ALARMS, QUALITY_DECISIONS, SESSION_EVENTS
from sluice_topics.records.retrievals import Alarm, QualityDecision, RetrievalReported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

DIGEST = "sha256:" + "ab" * 32
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
FLAGS = {
    "stale": ("freshness", "FRESHNESS_TTL_EXCEEDED"),
    "low_confidence": ("confidence", "CONFIDENCE_BELOW_MINIMUM"),
    "provenance_missing": ("provenance", "PROVENANCE_FAILED"),
    "provenance_unverified": ("provenance", "PROVENANCE_FAILED"),
}
TOPICS = {
    "sluice/quality_decision/v1": QUALITY_DECISIONS,
    "sluice/retrieval_reported/v1": SESSION_EVENTS,
    "sluice/alarm/v1": ALARMS,
}


def moment(day: int) -> str:
    """Noon of a day, counted from the first of March 2026."""
    return (FIRST + timedelta(days=day, hours=12)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _chain(at: str) -> dict[str, Any]:
    return {
        "partition": 0,
        "sequence": 1,
        "prev_hash": "GENESIS",
        "event_hash": DIGEST,
        "decided_at": at,
        "input": None,
    }


def decision(
    day: int = 0, content_class: str | None = "legal_text", outcome: str = "pass", **given: Any
) -> dict[str, Any]:
    """One record of gate.memory.quality_decision as it stands in the ledger."""
    at = moment(day)
    flags = given.get("flags_set", [])
    failed = {FLAGS[flag][0]: outcome for flag in flags if flag in FLAGS}
    fields = {
        **_chain(at),
        "schema": "sluice/quality_decision/v1",
        "schema_version": "1",
        "ledger_event_id": "quality:1",
        "timestamp": at,
        "request_id": "request-1",
        "request_hash": DIGEST,
        "place": 0,
        "item_id": "item-1",
        "content_class": content_class,
        "freshness_age_seconds": 3600.5,
        "confidence_score": 0.9,
        "provenance_uri": "https://source.example/1",
        "provenance_hash_verified": "provenance_unverified" not in flags,
        "quality_bundle_id": "sluice.quality",
        "quality_bundle_hash": DIGEST,
        "outcome": outcome,
        "flags_set": flags,
        "reason_codes": sorted({FLAGS[flag][1] for flag in flags if flag in FLAGS}),
        "tenant_id": "acme",
        "environment": "test",
        "autonomy_tier": "bounded",
        "enforcement": "enforce",
        "rollout": "enforce",
        "stages": [{"stage": "quality", "outcome": outcome}],
        "dimensions": [
            {
                "dimension": name,
                "passed": name not in failed,
                "outcome": failed.get(name, "pass"),
                "detail": "3600.5 s against 86400 s",
            }
            for name in ("freshness", "confidence", "provenance")
        ],
        "findings": [],
        "body_released": outcome in ("pass", "flag"),
        "bundle_hash": DIGEST,
        "registry_hashes": {"agent/one@1": DIGEST},
        "rerun_hash": DIGEST,
        **given,
    }
    return _hold(QualityDecision, fields)


def flag_only(day: int, would_have_been: str, content_class: str = "legal_text") -> dict[str, Any]:
    """A decision under flag-only."""
    flags = [] if would_have_been == "pass" else ["stale"]
    return decision(
        day,
        content_class,
        "flag" if flags else "pass",
        flags_set=flags,
        rollout="flag_only",
        would_have_been=would_have_been,
    )


def report(day: int, tier: str, items: int, covered: int, **given: Any) -> dict[str, Any]:
    """A store's report held against the decisions."""
    fields = {
        **_chain(moment(day)),
        "schema": "sluice/retrieval_reported/v1",
        "report_event_id": "reported:1",
        "report_id": "report-1",
        "request_id": "request-1",
        "agent_id": "one",
        "session_id": "s-1",
        "tenant_id": "acme",
        "autonomy_tier": tier,
        "reported_by": "store-1",
        "reported": items,
        "covered": covered,
        "uncovered": [f"item-{number}" for number in range(min(100, items - covered))],
        **given,
    }
    return _hold(RetrievalReported, fields)


def alarm(day: int, content_class: str = "product_pricing") -> dict[str, Any]:
    """Flag-only that outlived its window."""
    fields = {
        **_chain(moment(day)),
        "schema": "sluice/alarm/v1",
        "alarm_id": f"alarm:{content_class}:1",
        "kind": "flag_only_overdue",
        "severity": "warn",
        "recipient": "quality-owner@acme.example",
        "subject": content_class,
        "message": f"{content_class} is in flag-only for more than 14 days",
        "since": moment(day - 15),
        "overdue_since": moment(day - 1),
        "quality_bundle_id": "sluice.quality",
        "quality_bundle_hash": DIGEST,
        "raised_at": moment(day),
    }
    return _hold(Alarm, fields)


def _hold(model: Any, fields: dict[str, Any]) -> dict[str, Any]:
    held: dict[str, Any] = model.model_validate(fields).model_dump(mode="json", by_alias=True)
    return held


def export(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Lines of an export, in the order given."""
    for offset, event in enumerate(events):
        value = json.dumps(event, separators=(",", ":"), sort_keys=True).encode()
        yield write_line(Located(TOPICS[event["schema"]], 0, offset, b"s-1", value), 0)


def lay(path: Path, events: Iterable[dict[str, Any]]) -> Path:
    """An export as a file."""
    path.write_text("".join(f"{line}\n" for line in export(events)), encoding="utf-8")
    return path
