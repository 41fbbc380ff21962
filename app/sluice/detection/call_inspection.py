"""The door for calls: what an action's parameters would run, by a bundle's patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.detection.commands.call_effects import Effect, find_effects
from sluice.detection.commands.inspection import Hit, Inspection
from sluice.detection.commands.library import PatternLibrary, PatternSets, inspect_call
from sluice.detection.commands.patterns.globs import Globs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Effect",
    "Globs",
    "Hit",
    "Inspection",
    "PatternLibrary",
    "PatternSets",
    "inspect_call",
    "read_effects",
]


def read_effects(
    library: PatternLibrary, tool_name: str, action_types: Sequence[str], parameters: dict[str, Any]
) -> tuple[Effect, ...]:
    """What a call does to the world, read as an action of each of these types; empty: nobody can tell."""
    return find_effects(library.matchers, tool_name, action_types, parameters)
