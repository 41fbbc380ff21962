"""A flag-only that begins in the future would never be overdue: no alarm would tell anybody of it (seed 004,
"Flag-only mode left permanent")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.clock import rfc3339
from app.core.trust.refused import Reason

if TYPE_CHECKING:
    from app.core.retrieval.quality_bundle import QualityBundle

GRACE_MS = 24 * 3600 * 1000
"""How far ahead of its record's time a start may lie: it is often written as a day, and in local time."""


def start_refusal(bundle: QualityBundle, published_ms: int) -> Reason | None:
    """Why a quality bundle whose record has this broker's time (ms since 1970) may not count."""
    latest = published_ms + GRACE_MS
    for name, since_ms in sorted(bundle.rollout_since_ms.items()):
        if since_ms > latest and bundle.rollout_of(name) == "flag_only":
            told = f"flag-only published now begins by {rfc3339(latest)}"
            return Reason("invalid_bundle", f"$.rollout.{name}.since", told)
    return None
