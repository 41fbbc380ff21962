"""Out of a quality bundle's file, the tables that the gate looks things up in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.retrieval.lookup import Tables

if TYPE_CHECKING:
    from app.core.retrieval.quality_models import QualityBundleFile


def tables_of(file: QualityBundleFile) -> Tables:
    """The file's tables; a class that any part of it names is known."""
    return Tables(
        file.ttl_by_class,
        file.ttl_by_tool,
        file.min_confidence_by_class,
        file.provenance_required_by_class,
        file.default_by_class,
        dict(file.action_matrix.items()),
        frozenset().union(file.rollout, file.impact_by_class, file.access),
    )
