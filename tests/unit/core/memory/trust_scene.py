"""Findings, inspections and facts to score, each harmless unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from sluice.core.memory.trust import Facts
from sluice.core.policy.memory_policy import TrustPolicy
from sluice.core.state.history import History
from sluice.detection.text_inspection import ContentInspection, Finding

POLICY = TrustPolicy()
SOURCE_TYPES = ("system", "agent", "user", "plugin", "external")
"""From the most to the least reliable."""


def make_finding(name: str = "ignore_previous", **fields: Any) -> Finding:
    """A weak instruction override in plain text, some fields changed."""
    base: dict[str, Any] = {
        "kind": "instruction_override",
        "weight": "weak",
        "form": "plain",
        "reason": "tells the agent to ignore what it was told",
        "source": "OWASP LLM01",
        "framed": False,
        "start": 0,
        "end": 8,
    }
    return Finding(name, **{**base, **fields})


def inspection(*findings: Finding, **fields: Any) -> ContentInspection:
    """What the inspector makes of a short, ordinary text, some fields changed."""
    base: dict[str, Any] = {"characters": 80, "removed_share": 0.0, "special_share": 0.05}
    return ContentInspection(findings, **{"inconclusive": None, **base, **fields})


def history(positive: int = 0, negative: int = 0) -> History:
    """A source's reviews."""
    return History(None, positive, negative, positive + negative)


def facts(*findings: Finding, **fields: Any) -> Facts:
    """A user's first write in which these things were found, some facts changed."""
    base: dict[str, Any] = {
        "source_type": "user",
        "history": history(),
        "mismatch": False,
        "since_last_ms": None,
        "inspection": inspection(*findings),
    }
    return Facts(**{**base, **fields})
