"""What a rerun executes: the decision point of then, put together from the hashes in a decision."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from app.core.decide.decide import DecisionPoint
from app.core.foundation.errors import UnknownStageError
from app.core.foundation.limits import ROOM_FOR_ONE
from app.core.policy.policy import Policy
from app.core.registry.loading import build_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.actions.stage import Stage
    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.rerun.evidence import PolicyEvidence

REMEMBERED_POINTS = 256
Quality = tuple[str | None, str | None]
"""Id and hash of a quality bundle."""


class Gone(Exception):
    """Names what a rerun lacks."""

    def __init__(self, *missing: str) -> None:
        super().__init__(", ".join(missing))
        self.missing = missing


class Points(Protocol):
    """Gives the decision point that a record is executed again at."""

    def point(self, recorded: dict[str, Any]) -> DecisionPoint:
        """The point."""


class PointsOfThen:
    """Decision points over one body of evidence. `stage_of` gives a stage by its name, or raises
    UnknownStageError: an installation's own stages are its own to bring."""

    def __init__(self, evidence: PolicyEvidence, stage_of: Callable[[str], Stage]) -> None:
        self._evidence = evidence
        self._stage_of = stage_of
        self._point = lru_cache(maxsize=REMEMBERED_POINTS)(self._built)

    def point(self, recorded: dict[str, Any]) -> DecisionPoint:
        """Of what the record names by hash, for judgements. Raises Gone, BundleError and RegistryError."""
        entries = tuple(sorted(recorded["registry_hashes"].items()))
        quality = recorded.get("quality_bundle_id"), recorded.get("quality_bundle_hash")
        environment = recorded.get("environment", "rerun")
        return self._point(recorded["bundle_hash"], entries, quality, environment)

    def _built(
        self,
        bundle_hash: str,
        entries: tuple[tuple[str, str], ...],
        quality: Quality,
        environment: str,
    ) -> DecisionPoint:
        missing: list[str] = []
        bundle = self._evidence.bundle(bundle_hash)
        if bundle is None:
            missing.append(f"bundle {bundle_hash}")
        found = [(key, self._evidence.entry(key, entry_hash)) for key, entry_hash in entries]
        missing += [f"registry entry {key}" for key, entry in found if entry is None]
        stages = [self._stage(name, missing) for name in (() if bundle is None else bundle.stages)]
        judging = self._quality(quality, missing)
        if missing or bundle is None:
            raise Gone(*missing)
        registry = build_registry(entry for _, entry in found if entry is not None)
        policy = Policy({bundle.id: bundle}, registry, bundle.id, judging, quality[0] or "")
        known = [stage for stage in stages if stage is not None]
        return DecisionPoint(policy, known, ROOM_FOR_ONE, stopwatch=lambda: 0, environment=environment)

    def _quality(self, quality: Quality, missing: list[str]) -> dict[str, QualityBundle]:
        """The quality bundle by the id under which it was asked for; none where none was in force."""
        asked_for, bundle_hash = quality
        if asked_for is None or bundle_hash is None:
            return {}
        found = self._evidence.quality_bundle(bundle_hash)
        if found is None:
            missing.append(f"quality bundle {bundle_hash}")
            return {}
        return {asked_for: found}

    def _stage(self, name: str, missing: list[str]) -> Stage | None:
        try:
            return self._stage_of(name)
        except UnknownStageError:
            missing.append(f"stage {name}")
            return None
