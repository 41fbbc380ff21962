"""Small quality bundles and items."""

from __future__ import annotations

import json
from typing import Any

from sluice.core.metadata.provenance import ProvenanceState
from sluice.core.quality_bundle.quality_bundle import QualityBundle, load_quality_bundle
from sluice.core.retrieval.dimensions import ItemFacts

SINCE = "2026-01-01T00:00:00.000Z"
NOTE = "note"
MATRIX = {
    "sandbox": {NOTE: {"freshness": "flag", "confidence": "flag", "provenance": "flag"}},
    "bounded": {NOTE: {"freshness": "deny", "confidence": "downgrade", "provenance": "flag"}},
    "high_privilege": {NOTE: {"freshness": "deny", "confidence": "deny", "provenance": "deny"}},
}
_SOUND = {"content_class": NOTE, "freshness_age_seconds": 1, "confidence_score": 1, "provenance": "verified"}
CASE = {"name": "a sound note", "item": _SOUND, "tier": "bounded", "expect": {"outcome": "pass"}}


def quality_document(revision: int = 1, **changed: Any) -> dict[str, Any]:
    """A quality bundle with one class, `note`, whatever of it is changed."""
    document = {
        "id": "small.quality",
        "revision": revision,
        "description": "One class.",
        "rationale": "A small one for tests.",
        "ttl_by_class": {NOTE: 3600},
        "min_confidence_by_class": {NOTE: 0.5},
        "provenance_required_by_class": {NOTE: True},
        "action_matrix": MATRIX,
        "rollout": {NOTE: {"mode": "enforce", "since": SINCE}},
        "alarm_recipient": "data@operator.example",
        "escalation_ttl_ms": 1000,
        "cases": [CASE],
    }
    return {**document, **changed}


def quality_bundle(**changed: Any) -> QualityBundle:
    """The same, loaded."""
    return load_quality_bundle(json.dumps(quality_document(**changed)).encode())


def flag_only(*names: str) -> dict[str, Any]:
    """A rollout with these classes in flag-only."""
    return {name: {"mode": "flag_only", "since": SINCE} for name in names}


def item_facts(**changed: Any) -> ItemFacts:
    """An item of class `note` in which nothing is wrong, whatever of it is changed."""
    sound = ItemFacts(NOTE, 1000, None, 0.9, None, ProvenanceState("verified", "its hash verifies"), None)
    return sound._replace(**changed)
