"""The door for calls: what an action's parameters would run, by a bundle's patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.detection.commands.inspection import Hit, Inspection, together
from sluice.detection.commands.library import PatternLibrary, PatternSets
from sluice.detection.commands.patterns.globs import Globs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Globs", "Hit", "Inspection", "PatternLibrary", "PatternSets", "inspect_call"]


def inspect_call(
    library: PatternLibrary, tool_name: str, action_types: Sequence[str], parameters: dict[str, Any]
) -> Inspection:
    """Everything found in a call's parameters, read as an action of each of these types (at least one)."""
    read = [library.inspect(tool_name, one, parameters) for one in action_types]
    return read[0] if len(read) == 1 else together(read)
