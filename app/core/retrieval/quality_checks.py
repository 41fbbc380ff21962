"""What must hold of a quality bundle as a whole: no gap in its tables, and no hole where it is enforced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.retrieval.quality_tables import tables_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from app.core.retrieval.quality_models import QualityBundleFile
    from topics.records.retrievals import AutonomyTier, Dimension

ENFORCED: dict[AutonomyTier, tuple[Dimension, ...]] = {
    "high_privilege": ("freshness", "confidence", "provenance"),
    "bounded": ("freshness", "confidence"),
}
"""Seed 004, "Interaction with the autonomy tier": sandbox may be flag-only, bounded for provenance alone."""
LETS_THROUGH = ("pass", "flag")


def fault_in(file: QualityBundleFile) -> str | None:
    """The first thing that does not hold, None if everything does."""
    return next((fault for faults in (_gaps(file), _holes(file), _strays(file)) for fault in faults), None)


def _gaps(file: QualityBundleFile) -> Iterator[str]:
    complete: dict[str, Container[str]] = {
        "ttl_by_class": file.ttl_by_class,
        "min_confidence_by_class": file.min_confidence_by_class,
        "provenance_required_by_class": file.provenance_required_by_class,
        "rollout": file.rollout,
    }
    for name in sorted(tables_of(file).classes()):
        for table, by_class in complete.items():
            if name not in by_class:
                yield f"{table} lacks the class {name}"


def _holes(file: QualityBundleFile) -> Iterator[str]:
    tables = tables_of(file)
    enforced = sorted(name for name, rollout in file.rollout.items() if rollout.mode == "enforce")
    for tier, dimensions in ENFORCED.items():
        for name in enforced:
            for dimension in dimensions:
                outcome = tables.outcome(tier, name, dimension)
                if outcome in LETS_THROUGH:
                    yield (
                        f"action_matrix.{tier}.{name}.{dimension} comes to {outcome}: "
                        "outside flag-only it must be downgrade or deny"
                    )


def _strays(file: QualityBundleFile) -> Iterator[str]:
    names = [case.name for case in file.cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two cases are called {name}"
