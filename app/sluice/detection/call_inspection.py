"""The door for calls: what an action's parameters would run, by a bundle's patterns."""

from __future__ import annotations

from sluice.detection.commands.inspection import Hit, Inspection
from sluice.detection.commands.library import PatternLibrary, PatternSets, inspect_call
from sluice.detection.commands.patterns.globs import Globs

__all__ = ["Globs", "Hit", "Inspection", "PatternLibrary", "PatternSets", "inspect_call"]
