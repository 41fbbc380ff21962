"""What a bundle's own case says when it came out otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.policy.kind import AnyKind


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """One field of one case that came out otherwise.

    `field` is a field of `expect`, "rules.<id>", or "action", "write" or "registry" where the case cannot be
    run. `decided`: outcome, gate and reason of the decision, "" where there was none. `position`: the case's
    among the bundle's cases, from 0; names may repeat.
    """

    case: str
    field: str
    expected: Any
    actual: Any
    decided: str = ""
    position: int = 0

    def __str__(self) -> str:
        """On one line."""
        description = f"{self.case}: {self.field}: expected {_show(self.expected)}, got {_show(self.actual)}"
        return f"{description} ({self.decided})" if self.decided not in ("", self.actual) else description


def make_unusable(case: str, kind: AnyKind, why: object) -> CaseFailure:
    """The failure of a case whose input cannot be decided."""
    field = kind.case.field if kind.case else kind.name
    article = "an" if field[0] in "aeiou" else "a"
    return CaseFailure(case, field, f"{article} {field} that can be decided", str(why))


def add_places(by_case: Iterable[Iterable[CaseFailure]]) -> tuple[CaseFailure, ...]:
    """The failures of a bundle's cases, given case by case, each with its case's place."""
    return tuple(replace(failure, position=index) for index, own in enumerate(by_case) for failure in own)


def count_cases(failures: Iterable[CaseFailure]) -> int:
    """How many cases failed, whatever the number of fields."""
    return len({failure.position for failure in failures})


def describe_decision(outcome: str, gate: str | None, reason: str | None) -> str:
    """What came of an input, for a person: "BLOCK by fast_reject: forbidden_pattern: sql.drop"."""
    by = outcome if gate is None else f"{outcome} by {gate}"
    return by if reason is None else f"{by}: {reason}"


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
