"""A bundle document of either kind, policy or quality, told apart by what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.bundles import Bundle, load_bundle
from app.core.cases import run_cases
from app.core.errors import BundleError
from app.core.retrieval.quality_bundle import QualityBundle, load_quality_bundle
from app.core.retrieval.quality_cases import run_quality_cases
from app.core.strict import json_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.actions.stage import Stage
    from app.core.case_failure import CaseFailure

QUALITY_FIELD = "action_matrix"
"""Every quality bundle has it, and no policy bundle may."""


def is_quality(raw: bytes) -> bool:
    """Whether a bundle document means to be a quality bundle. Raises BundleError for what is no document."""
    try:
        return QUALITY_FIELD in json_object(raw)
    except ValueError as error:
        raise BundleError(str(error)) from None


def load_any_bundle(raw: bytes) -> Bundle | QualityBundle:
    """The bundle in a file's bytes. Raises BundleError with the path and the reason."""
    return load_quality_bundle(raw) if is_quality(raw) else load_bundle(raw)


def case_count(bundle: Bundle | QualityBundle) -> int:
    """How many cases it carries."""
    return len(bundle.file.cases if isinstance(bundle, QualityBundle) else bundle.cases)


def run_own_cases(
    bundle: Bundle | QualityBundle, stages: Sequence[Stage] | None = None
) -> tuple[CaseFailure, ...]:
    """The cases that fail; a policy bundle's under these stages, the shipped ones if not told otherwise."""
    if isinstance(bundle, QualityBundle):
        return run_quality_cases(bundle)
    return run_cases(bundle) if stages is None else run_cases(bundle, stages)
