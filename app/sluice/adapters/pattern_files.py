"""The libraries of known actions in a folder, and the calibrations that were fitted for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.actions.action_similarity import ActionCalibration
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.strict import json_object
from sluice.core.policy.pattern_library import ActionLibrary
from sluice.core.trust.in_force import PolicyError
from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from pathlib import Path

PATTERNS = SHIPPED_FILES / "patterns"
"""Those that ship."""


def read_libraries(folder: Path | None = None) -> list[ActionLibrary]:
    """Those in the folder (`*.jsonl`), None for the one that ships. Raises PolicyError."""
    libraries = []
    for file in sorted((folder or PATTERNS).glob("*.jsonl")):
        try:
            libraries.append(ActionLibrary.from_lines(file.read_bytes()))
        except (OSError, CoreError) as wrong:
            raise PolicyError(f"embedding.patterns: {file}: {wrong}") from wrong
    return libraries


def read_calibrations(library: str, folder: Path | None = None) -> dict[str, ActionCalibration]:
    """The calibrations of this library that were fitted without a source, by the source's name; none where no
    file (`*.calibration.json`) in the folder has them. Raises PolicyError."""
    for file in sorted((folder or PATTERNS).glob("*.calibration.json")):
        try:
            content = json_object(file.read_bytes())
            if content["library"] == library:
                return {
                    name: ActionCalibration.model_validate(value)
                    for name, value in content["without"].items()
                }
        except (OSError, ValueError, KeyError, AttributeError) as wrong:
            raise PolicyError(f"embedding.patterns: {file}: {wrong}") from wrong
    return {}
