"""What a bundle's own case says when it came out otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """One field of one case that came out otherwise.

    `field` is a field of `expect`, "rules.<id>", or "action", "write" or "registry" where the case cannot be
    run.
    """

    case: str
    field: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        """On one line."""
        return f"{self.case}: {self.field}: expected {_shown(self.expected)}, got {_shown(self.actual)}"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
