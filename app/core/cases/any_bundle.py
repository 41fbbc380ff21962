"""A bundle document of either kind, policy or quality, told apart by what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.stages import load_bundle
from app.core.cases.quality_cases import run_quality_cases
from app.core.foundation.errors import BundleError
from app.core.foundation.strict import json_object
from app.core.quality_bundle.quality_bundle import QualityBundle, load_quality_bundle

if TYPE_CHECKING:
    from app.core.cases.case_failure import CaseFailure
    from app.core.policy.bundles import Bundle

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


def run_own_cases(bundle: Bundle | QualityBundle) -> tuple[CaseFailure, ...]:
    """The cases that fail. Raises UnknownStageError for a policy bundle with a stage that does not ship."""
    from app.core.cases.cases import run_cases  # noqa: PLC0415 - the whole decision; to sign a bundle needs none of it

    return run_quality_cases(bundle) if isinstance(bundle, QualityBundle) else run_cases(bundle)
