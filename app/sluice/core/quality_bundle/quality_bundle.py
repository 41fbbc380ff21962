"""Quality bundles, which are separate from policy bundles: loading validates them and prepares the
look-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.errors import BundleError, CanonicalError
from sluice.core.foundation.strict import first_error, json_object
from sluice.core.quality_bundle.lookup import Lookup
from sluice.core.quality_bundle.quality_models import QualityBundleFile, RolloutMode, make_tables
from sluice.core.quality_bundle.severity import IMPACTS

if TYPE_CHECKING:
    from sluice.core.metadata.provenance import Resolution
    from sluice.core.quality_bundle.content_settings import ContentWeight
    from sluice_topics.records.retrievals import AutonomyTier, QualityOutcome

_MS = 1000


class QualityBundle:
    """A loaded quality bundle: its file, its hash and its look-up."""

    def __init__(self, file: QualityBundleFile, bundle_hash: str) -> None:
        self.id = file.id
        self.revision = file.revision
        self.hash = bundle_hash
        self.file = file
        self.lookup = Lookup(make_tables(file))
        self.schemes = frozenset(file.provenance_schemes)
        self.high_impact = frozenset(name.casefold() for name in file.high_impact_categories)
        self.escalation_ttl_ms = file.escalation_ttl_ms
        self.provenance_refresh_ms = file.provenance_refresh_s * _MS
        self.provenance_retry_ms = min(file.provenance_retry_s, file.provenance_refresh_s) * _MS
        max_age_s = file.provenance_max_age_s
        self.provenance_max_age_ms = None if max_age_s is None else max_age_s * _MS
        self.rollout_since_ms = {
            name: read_milliseconds(rollout.since) for name, rollout in file.rollout.items()
        }
        self._rollout = {name: rollout.mode for name, rollout in file.rollout.items()}
        self._open_to = {
            name: frozenset(access.tenants)
            for name, access in file.access.items()
            if access.tenants is not None
        }
        self._content: dict[tuple[str, str], QualityOutcome] = {
            (tier, weight): outcome
            for tier, by_weight in file.content_actions.model_dump().items()
            for weight, outcome in by_weight.items()
        }

    @property
    def key(self) -> str:
        """ "id@revision"."""
        return f"{self.id}@{self.revision}"

    def rollout_of(self, content_class: str | None) -> RolloutMode:
        """The rollout of a class; a class that the bundle does not know is enforced."""
        return self._rollout.get(content_class or "", "enforce")

    def readers(self, content_class: str | None) -> frozenset[str] | None:
        """The tenants that may read the class at all; None: every one."""
        return self._open_to.get(content_class or "")

    def opens(self, content_class: str | None, tenant: str) -> bool:
        """Whether this tenant may read the class at all."""
        tenants = self.readers(content_class)
        return tenants is None or tenant in tenants

    def wants_again(self, resolution: Resolution, now_ms: int) -> bool:
        """Whether a reference should be resolved again: an unresolved one earlier than a resolved one."""
        resolved = resolution.status == "resolved"
        longest_ms = self.provenance_refresh_ms if resolved else self.provenance_retry_ms
        return now_ms - resolution.seen_ms > longest_ms

    def is_too_old(self, resolution: Resolution, now_ms: int) -> bool:
        """Whether a resolution is too old for the bundle."""
        limit_ms = self.provenance_max_age_ms
        return limit_ms is not None and now_ms - resolution.seen_ms > limit_ms

    @property
    def keeps_classes(self) -> bool:
        """Whether any class is restricted to some tenants: then unknown classes are closed too."""
        return bool(self._open_to)

    def content_outcome(self, tier: AutonomyTier, weight: ContentWeight) -> QualityOutcome:
        """The outcome of an item whose body has a finding of this weight."""
        return self._content[(tier, weight)]

    def impact_rank(self, content_class: str) -> int:
        """The rank of a class's impact, from 0, the lowest; a class without an impact has the highest."""
        impact = self.file.impact_by_class.get(content_class, IMPACTS[-1])
        return IMPACTS.index(impact)


def load_quality_bundle(raw: bytes) -> QualityBundle:
    """The quality bundle in a file's bytes. Raises BundleError with the path and the reason."""
    try:
        document: dict[str, Any] = json_object(raw)
        return QualityBundle(QualityBundleFile.model_validate(document), digest(document))
    except ValidationError as error:
        raise BundleError(first_error(error)) from None
    except (ValueError, CanonicalError) as error:
        raise BundleError(str(error)) from None
