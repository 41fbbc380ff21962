"""The shipped command patterns, compiled once, and what they say about a command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sluice.detection.commands.patterns.conditions import CommandPattern
from sluice.detection.commands.patterns.patterns import CommandPatterns
from sluice.detection.commands.shell import read_shell

DIRECTORY = Path(__file__).parents[4] / "config" / "bundles" / "patterns"


def _documents() -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(DIRECTORY.glob("*.json"))]


SHIPPED = [
    CommandPattern.model_validate(one) for document in _documents() for one in document.get("commands", [])
]
LIBRARY = CommandPatterns(SHIPPED)


def hits(text: str, severity: str = "critical") -> list[str]:
    """The ids of the shipped patterns of a severity that a command line matches."""
    return [one.id for one in LIBRARY.matches(read_shell(text)) if one.severity == severity]
