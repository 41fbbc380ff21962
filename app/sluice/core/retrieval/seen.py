"""What the judgement of an item takes from state: where its reference led, as the decision on it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.core.metadata.provenance import Resolution
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.text.places import normal_uri

Resolutions = Mapping[tuple[str, str], Resolution]
"""By tenant and the reference's normal form."""


def record_resolution(seen: Resolution) -> dict[str, Any]:
    """The decision's `seen`: the resolution that it rests on, its keys in canonical order."""
    return {
        "detail": seen.detail,
        "hash": seen.hash,
        "resolver": seen.resolver,
        "seen_at": seen.seen_ms,
        "status": seen.status,
    }


def read_resolutions(decision: Mapping[str, Any]) -> Resolutions:
    """From a decision: the way back of `record_resolution`, under the item's own reference."""
    seen = decision["seen"]
    if seen is None or decision["provenance_uri"] is None:
        return {}
    tenant = UNREGISTERED if decision["tenant_id"] is None else decision["tenant_id"]
    known = Resolution(seen["status"], seen["hash"], seen["resolver"], seen["seen_at"], seen["detail"])
    return {(tenant, normal_uri(decision["provenance_uri"])): known}
