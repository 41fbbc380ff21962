"""The shipped pattern library, and what it says of a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.core.scene import bundle

if TYPE_CHECKING:
    from sluice.detection.commands.inspection import Inspection

LIBRARY = bundle().library


def inspect(parameters: dict[str, Any], tool: str = "anything") -> Inspection:
    return LIBRARY.inspect(tool, "OTHER", parameters)


def is_blocked(parameters: dict[str, Any], tool: str = "anything") -> bool:
    return any(hit.severity == "critical" for hit in inspect(parameters, tool).hits)


def silent(parameters: dict[str, Any], tool: str = "anything") -> bool:
    found = inspect(parameters, tool)
    return not found.hits and found.inconclusive is None
