"""What a rerun executes: the decision point of then, put together from the hashes in a decision."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from app.core.decide import DecisionPoint
from app.core.errors import UnknownStageError
from app.core.policy import Policy
from app.core.registry import build_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.core.actions.stage import Stage
    from app.core.ledger.evidence import PolicyEvidence
    from app.core.limits import SessionLimits

REMEMBERED_POINTS = 256


class Gone(Exception):
    """Names what a rerun lacks."""

    def __init__(self, *missing: str) -> None:
        super().__init__(", ".join(missing))
        self.missing = missing


class PointsOfThen:
    """Decision points over one body of evidence. `stage_of` gives a stage by its name, or raises
    UnknownStageError: an installation's own stages are its own to bring."""

    def __init__(self, evidence: PolicyEvidence, stage_of: Callable[[str], Stage]) -> None:
        self._evidence = evidence
        self._stage_of = stage_of
        self._point = lru_cache(maxsize=REMEMBERED_POINTS)(self._built)

    def point(
        self, bundle_hash: str, entries: Mapping[str, str], stages: Sequence[str], limits: SessionLimits
    ) -> DecisionPoint:
        """`entries`: "kind/id@revision" to hash. Raises Gone, BundleError and RegistryError."""
        return self._point(bundle_hash, tuple(sorted(entries.items())), tuple(stages), limits)

    def _built(
        self,
        bundle_hash: str,
        entries: tuple[tuple[str, str], ...],
        names: tuple[str, ...],
        limits: SessionLimits,
    ) -> DecisionPoint:
        missing = []
        bundle = self._evidence.bundle(bundle_hash)
        if bundle is None:
            missing.append(f"bundle {bundle_hash}")
        found = [(key, self._evidence.entry(key, entry_hash)) for key, entry_hash in entries]
        missing += [f"registry entry {key}" for key, entry in found if entry is None]
        stages = [self._stage(name, missing) for name in names]
        if missing or bundle is None:
            raise Gone(*missing)
        registry = build_registry(entry for _, entry in found if entry is not None)
        policy = Policy({bundle.id: bundle}, registry, bundle.id)
        known = [stage for stage in stages if stage is not None]
        return DecisionPoint(policy, known, limits, stopwatch=lambda: 0, environment="rerun")

    def _stage(self, name: str, missing: list[str]) -> Stage | None:
        try:
            return self._stage_of(name)
        except UnknownStageError:
            missing.append(f"stage {name}")
            return None
